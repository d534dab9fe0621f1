# SPDX-License-Identifier: Apache-2.0
"""packages/*/assemble.py: an XCFramework's layout and Info.plist, and what both refuse. scripts/test_jni.sh opens an
AAR of real libraries and runs the tests with it."""

import plistlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("session_create", "tokenizer_open", "chat_open", "data_open")  # of the runtime, and of libmebp_text
ARCHIVE = b"!<arch>\n" + b"".join(f"_mebp_{name}\0".encode() for name in NAMES)


def run(package: str, *arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "packages" / package / "assemble.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def library(tmp_path) -> Path:
    path = tmp_path / "libmebp.a"
    path.write_bytes(ARCHIVE)
    return path


HEADERS = ROOT / "runtime" / "include"


def test_an_xcframework_has_each_slice_with_library_headers_and_module(library, tmp_path):
    output = tmp_path / "CMebp.xcframework"
    slices = {"ios-arm64": ["arm64"], "ios-arm64-simulator": ["arm64"], "macos-arm64_x86_64": ["arm64", "x86_64"]}
    given = [word for name in slices for word in ("--slice", f"{name}={library}")]
    made = run("swift", *given, "--headers", HEADERS, "-o", output)
    assert (made.returncode, made.stdout) == (0, f"{output}\n"), made.stderr
    info = plistlib.loads((output / "Info.plist").read_bytes())
    assert (info["CFBundlePackageType"], info["XCFrameworkFormatVersion"]) == ("XFWK", "1.0")
    assert [found["LibraryIdentifier"] for found in info["AvailableLibraries"]] == list(slices)
    for found in info["AvailableLibraries"]:
        name = found["LibraryIdentifier"]
        folder = output / name
        assert found["SupportedPlatform"] == name.split("-")[0]
        assert found.get("SupportedPlatformVariant") == ("simulator" if "simulator" in name else None)
        assert found["SupportedArchitectures"] == slices[name]
        assert (folder / found["LibraryPath"]).read_bytes() == ARCHIVE
        headers = folder / found["HeadersPath"]
        assert {path.name for path in (headers / "mebp").iterdir()} == {
            path.name for path in (HEADERS / "mebp").iterdir()
        }
        assert 'header "CMebp.h"' in (headers / "module.modulemap").read_text()
        for header in ("mebp", "tokenizer", "chat", "data"):
            assert f"<mebp/{header}.h>" in (headers / "CMebp.h").read_text()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"slice": "tv-arm64={library}"},
            "--slice tv-arm64: give a platform such as ios-arm64, ios-arm64-simulator or",
        ),
        (
            {"slice": "ios-arm64={other}"},
            "{other}: is not a static library; give the libmebp.a of a build for ios-arm64",
        ),
        ({"headers": "{there}"}, "{there}: has no mebp/mebp.h; give the include folder of an installed runtime"),
        ({"output": "{there}"}, "{there}: is there; remove it, or give another name"),
    ],
)
def test_an_xcframework_of_wrong_things_is_refused(change, line, library, tmp_path):
    other, there, output = tmp_path / "other", tmp_path / "there", tmp_path / "made"
    other.write_bytes(b"\x7fELF....")
    there.mkdir()
    named = {"library": library, "other": other, "there": there}
    given = {"slice": "ios-arm64={library}", "headers": str(HEADERS), "output": str(output)} | change
    words = [word for name, text in given.items() for word in (f"--{name}", text.format(**named))]
    refused = run("swift", *words)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert refused.stderr.startswith("assemble.py: " + line.format(**named))
    assert not output.exists() and not list(there.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_an_xcframework_has_the_runtime_and_text(name, library, tmp_path):
    library.write_bytes(ARCHIVE.replace(name.encode(), b"other"))
    output = tmp_path / "CMebp.xcframework"
    refused = run("swift", "--slice", f"ios-arm64={library}", "--headers", HEADERS, "-o", output)
    line = f"{library}: has no mebp_{name}; join the runtime and libmebp_text in it"
    assert (refused.returncode, refused.stderr) == (2, f"assemble.py: {line}\n") and not output.exists()


def test_an_aar_of_wrong_things_is_refused(library, tmp_path):
    jar, elf, output = tmp_path / "classes.jar", tmp_path / "libmebp_jni.so", tmp_path / "repository"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("org/mebp/Native.class", b"")
    elf.write_bytes(b"\x7fELF")

    def refusal(classes: Path, given: str) -> str:
        ended = run("android", "--classes", classes, "--library", given, "--version", "1", "-o", output)
        assert ended.returncode == 2 and not output.exists()
        return ended.stderr

    abis = "arm64-v8a, armeabi-v7a, x86, x86_64"
    assert refusal(jar, f"mips={elf}") == f"assemble.py: --library mips={elf}: give one of {abis}, '=', and a file\n"
    not_linked = f"assemble.py: {library}: is not a library for x86; give a file that the NDK has linked\n"
    assert refusal(jar, f"x86={library}") == not_linked
    not_jar = f"assemble.py: {elf}: is not a jar; give the one that kotlinc has made of src/main/kotlin\n"
    assert refusal(elf, f"x86={elf}") == not_jar
    made = run("android", "--classes", jar, "--library", f"x86={elf}", "--version", "1", "-o", output)
    assert made.stdout == f"{output / 'org/mebp/mebp/1/mebp-1.aar'}\n"
    first = (output / "org/mebp/mebp/1/mebp-1.aar").read_bytes()
    run("android", "--classes", jar, "--library", f"x86={elf}", "--version", "1", "-o", output)
    assert (output / "org/mebp/mebp/1/mebp-1.aar").read_bytes() == first


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("make_aar.sh", "make_aar: give the folder of an Android NDK"),
        ("make_xcframework.sh", "make_xcframework: run this on a Mac with Xcode"),
    ],
)
@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac would build")
def test_the_scripts_say_what_they_need(script, line):
    ended = subprocess.run([ROOT / "scripts" / script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, f"{line}\n")
