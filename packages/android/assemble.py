# SPDX-License-Identifier: Apache-2.0
"""Makes an AAR of compiled classes and libraries, and its pom, as a Maven repository has them.

    assemble.py --classes classes.jar --library ABI=FILE.so ... --version 1.0 -o REPOSITORY

Writes REPOSITORY/org/mebp/mebp/VERSION/mebp-VERSION.aar and .pom. scripts/make_aar.sh calls it.
"""

import argparse
import re
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent / "mebp"
GROUP, ARTIFACT = "org.mebp", "mebp"
ABIS = ("arm64-v8a", "armeabi-v7a", "x86", "x86_64")
MADE_AT = (1980, 1, 1, 0, 0, 0)  # the same files make the same archive


def read_gradle(pattern: str) -> str:
    """The one place that says it is Gradle's file of the library."""
    found = re.search(pattern, (HERE / "build.gradle.kts").read_text(encoding="utf-8"))
    if not found:
        raise ValueError(f"{HERE / 'build.gradle.kts'}: has nothing like {pattern}")
    return found[1]


def make_manifest() -> bytes:
    """The library's own, with what Gradle would merge into it."""
    android = "http://schemas.android.com/apk/res/android"
    ElementTree.register_namespace("android", android)
    root = ElementTree.fromstring((HERE / "src/main/AndroidManifest.xml").read_text(encoding="utf-8"))
    root.set("package", read_gradle(r'namespace = "([\w.]+)"'))
    ElementTree.SubElement(root, "uses-sdk", {f"{{{android}}}minSdkVersion": read_gradle(r"minSdk = (\d+)")})
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def make_pom(version: str) -> bytes:
    group, artifact, needed = read_gradle(r'api\("([\w.:-]+)"\)').split(":")
    root = ElementTree.Element("project", {"xmlns": "http://maven.apache.org/POM/4.0.0"})

    def add(parent: ElementTree.Element, **texts: str) -> None:
        for name, text in texts.items():
            ElementTree.SubElement(parent, name).text = text

    add(root, modelVersion="4.0.0", groupId=GROUP, artifactId=ARTIFACT, version=version, packaging="aar")
    add(ElementTree.SubElement(ElementTree.SubElement(root, "licenses"), "license"), name="Apache-2.0")
    dependency = ElementTree.SubElement(ElementTree.SubElement(root, "dependencies"), "dependency")
    add(dependency, groupId=group, artifactId=artifact, version=needed, scope="compile")
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def make_aar(path: Path, classes: Path, libraries: list[tuple[str, Path]]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, content: bytes) -> None:
            archive.writestr(zipfile.ZipInfo(name, MADE_AT), content, zipfile.ZIP_DEFLATED)

        add("AndroidManifest.xml", make_manifest())
        add("classes.jar", classes.read_bytes())
        add("R.txt", b"")  # no resources
        add("proguard.txt", (HERE / "keep.pro").read_bytes())
        for abi, library in libraries:
            add(f"jni/{abi}/{library.name}", library.read_bytes())


def parse_library(text: str) -> tuple[str, Path]:
    abi, _, file = text.partition("=")
    if abi not in ABIS or not file:
        raise ValueError(f"--library {text}: give one of {', '.join(ABIS)}, '=', and a file")
    return abi, Path(file)


def assemble(classes: Path, libraries: list[str], version: str, repository: Path) -> Path:
    """Returns the AAR. Raises ValueError or OSError before anything is written where an input is wrong."""
    parsed = [parse_library(library) for library in libraries]
    for abi, file in parsed:
        with file.open("rb") as opened:
            if opened.read(4) != b"\x7fELF":
                raise ValueError(f"{file}: is not a library for {abi}; give a file that the NDK has linked")
    if not zipfile.is_zipfile(classes):
        raise ValueError(f"{classes}: is not a jar; give the one that kotlinc has made of src/main/kotlin")
    pom = make_pom(version)
    folder = repository.joinpath(*GROUP.split("."), ARTIFACT, version)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{ARTIFACT}-{version}.aar"
    make_aar(path, classes, parsed)
    path.with_suffix(".pom").write_bytes(pom)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=Path, required=True)
    parser.add_argument("--library", action="append", required=True, metavar="ABI=FILE")
    parser.add_argument("--version", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="REPOSITORY")
    arguments = parser.parse_args()
    try:
        print(assemble(arguments.classes, arguments.library, arguments.version, arguments.output))
    except (OSError, ValueError) as error:
        print(f"assemble.py: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
