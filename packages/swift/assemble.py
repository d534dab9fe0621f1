# SPDX-License-Identifier: Apache-2.0
"""Makes an XCFramework of static libraries, each of the runtime and libmebp_text, and an installed runtime's headers.

    assemble.py --slice PLATFORM=FILE.a ... --headers PREFIX/include -o CMebp.xcframework

PLATFORM is ios-arm64, ios-arm64-simulator or macos-arm64, or one of these with more architectures in its name, as
macos-arm64_x86_64. scripts/make_xcframework.sh calls it.
"""

import argparse
import plistlib
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLATFORMS, ARCHITECTURES = ("ios", "macos"), ("arm64", "x86_64")
MAGIC = b"!<arch>\n"  # of a static library of one architecture
MAGICS = (MAGIC, b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")  # and of what lipo has joined
# A function of each header that Swift calls: one of the runtime, the others of libmebp_text.
FUNCTIONS = (b"mebp_session_create", b"mebp_tokenizer_open", b"mebp_chat_open", b"mebp_data_open")


def describe(identifier: str, library: str) -> dict:
    """A slice as Info.plist has it. Raises ValueError for a name that Apple has not."""
    platform, _, rest = identifier.partition("-")
    architectures, _, variant = rest.partition("-")
    found = architectures.split("_", 1) if architectures.startswith("arm64_") else [architectures]
    if platform not in PLATFORMS or not set(found) <= set(ARCHITECTURES) or variant not in ("", "simulator"):
        raise ValueError(f"--slice {identifier}: give a platform such as ios-arm64, ios-arm64-simulator or macos-arm64")
    about = {
        "BinaryPath": library,
        "HeadersPath": "Headers",
        "LibraryIdentifier": identifier,
        "LibraryPath": library,
        "SupportedArchitectures": found,
        "SupportedPlatform": platform,
    }
    return about | ({"SupportedPlatformVariant": variant} if variant else {})


def assemble(slices: list[str], headers: Path, output: Path) -> None:
    """Raises ValueError or OSError before anything is written where an input is wrong."""
    described = []
    for text in slices:
        identifier, _, file = text.partition("=")
        about, library = describe(identifier, "libmebp.a"), Path(file)
        content = library.read_bytes()
        if not content.startswith(MAGICS):
            raise ValueError(f"{library}: is not a static library; give the libmebp.a of a build for {identifier}")
        for function in FUNCTIONS:
            if function not in content:
                raise ValueError(f"{library}: has no {function.decode()}; join the runtime and libmebp_text in it")
        described.append((about, library))
    if not (headers / "mebp" / "mebp.h").exists():
        raise ValueError(f"{headers}: has no mebp/mebp.h; give the include folder of an installed runtime")
    if output.exists():
        raise ValueError(f"{output}: is there; remove it, or give another name")
    for about, library in described:
        folder = output / about["LibraryIdentifier"]
        shutil.copytree(headers / "mebp", folder / "Headers" / "mebp")
        for name in ("CMebp.h", "module.modulemap"):
            shutil.copy(HERE / "Sources" / "CMebp" / name, folder / "Headers" / name)
        shutil.copy(library, folder / "libmebp.a")
    info = {
        "AvailableLibraries": [about for about, _ in described],
        "CFBundlePackageType": "XFWK",
        "XCFrameworkFormatVersion": "1.0",
    }
    (output / "Info.plist").write_bytes(plistlib.dumps(info))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slice", action="append", required=True, metavar="PLATFORM=FILE")
    parser.add_argument("--headers", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        assemble(arguments.slice, arguments.headers, arguments.output)
    except (OSError, ValueError) as error:
        print(f"assemble.py: {error}", file=sys.stderr)
        sys.exit(2)
    print(arguments.output)


if __name__ == "__main__":
    main()
