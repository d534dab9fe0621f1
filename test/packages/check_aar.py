# SPDX-License-Identifier: Apache-2.0
"""Opens the AAR of a Maven repository as Gradle would, says what is wrong with it, and unpacks it.

check_aar.py REPOSITORY FOLDER
"""

import re
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

ANDROID = "{http://schemas.android.com/apk/res/android}"
MAVEN = "{http://maven.apache.org/POM/4.0.0}"


def check_manifest(archive: zipfile.ZipFile) -> None:
    root = ElementTree.fromstring(archive.read("AndroidManifest.xml"))
    assert root.tag == "manifest" and root.get("package") == "org.mebp"
    assert root.find("uses-sdk").get(f"{ANDROID}minSdkVersion") == "26"


def check_rules(archive: zipfile.ZipFile, classes: zipfile.ZipFile, library: bytes) -> None:
    """What the rules keep is there, and is all that the library asks for by name."""
    kept = set(re.findall(r"-keep class ([\w.]+)", archive.read("proguard.txt").decode()))
    names = {name.removesuffix(".class").replace("/", ".") for name in classes.namelist()}
    assert kept and kept <= names, kept - names
    found = {match.decode().replace("/", ".") for match in re.findall(rb"org/mebp/\w+", library)}
    natives = {match.decode() for match in re.findall(rb"Java_org_mebp_(\w+?)_\w+", library)}
    asked = found | {f"org.mebp.{name}" for name in natives}
    assert asked == kept, asked ^ kept
    for owner, name in set(re.findall(rb"Java_org_mebp_(Native\w*?)_(\w+)", library)):
        assert name in classes.read(f"org/mebp/{owner.decode()}.class"), name


def check_libraries(libraries: dict[str, bytes]) -> None:
    """Each has beside it those of ours that it needs."""
    asked = {"libmebp_jni.so", "libmebp_text_jni.so"}
    for content in libraries.values():
        asked |= {name.decode() for name in re.findall(rb"\0(libmebp\w*\.so[.\d]*)(?=\0)", content)}
    there = {Path(name).name for name in libraries}
    assert "libmebp_text.so" in asked <= there, asked - there


def check_pom(pom: Path) -> None:
    root = ElementTree.parse(pom).getroot()
    texts = {name: root.findtext(MAVEN + name) for name in ("groupId", "artifactId", "version", "packaging")}
    assert texts == {"groupId": "org.mebp", "artifactId": "mebp", "version": pom.parent.name, "packaging": "aar"}
    (needed,) = root.iter(f"{MAVEN}dependency")
    assert needed.findtext(f"{MAVEN}artifactId") == "kotlinx-coroutines-android"


def main() -> None:
    repository, folder = map(Path, sys.argv[1:])
    (path,) = repository.rglob("*.aar")
    assert path.relative_to(repository).parts[:3] == ("org", "mebp", "mebp")
    assert path.name == f"mebp-{path.parent.name}.aar"
    with zipfile.ZipFile(path) as archive:
        libraries = {name: archive.read(name) for name in archive.namelist() if name.startswith("jni/")}
        assert set(archive.namelist()) == {"AndroidManifest.xml", "classes.jar", "R.txt", "proguard.txt", *libraries}
        check_manifest(archive)
        archive.extractall(folder)
        with zipfile.ZipFile(folder / "classes.jar") as classes:
            assert not [name for name in classes.namelist() if not name.startswith(("org/mebp/", "META-INF/"))]
            check_rules(archive, classes, b"".join(libraries[name] for name in libraries if name.endswith("_jni.so")))
        check_libraries(libraries)
    check_pom(path.with_suffix(".pom"))


if __name__ == "__main__":
    main()
