# SPDX-License-Identifier: Apache-2.0
"""What a file is that is no text, by how it begins."""

import codecs
import re
from pathlib import Path

from mebp.errors import Error

_UNPACK = "unpack it, and give the file in it"
_NO_TEXT = "give text, or JSON lines"
_CONVERT = "convert it to UTF-8, as iconv -f {0} -t UTF-8 does"
# UTF-32 in little-endian begins as UTF-16 does.
_BEGINNINGS = {
    codecs.BOM_UTF32_LE: ("is text in UTF-32", _CONVERT.format("UTF-32")),
    codecs.BOM_UTF32_BE: ("is text in UTF-32", _CONVERT.format("UTF-32")),
    codecs.BOM_UTF16_LE: ("is text in UTF-16", _CONVERT.format("UTF-16")),
    codecs.BOM_UTF16_BE: ("is text in UTF-16", _CONVERT.format("UTF-16")),
    b"PK\x03\x04": ("is a zip archive, or a document in one", f"{_UNPACK}, or save the document as text"),
    b"PK\x05\x06": ("is an empty zip archive", "give another file"),
    b"\x1f\x8b": ("is compressed (gzip)", _UNPACK),
    b"BZh": ("is compressed (bzip2)", _UNPACK),
    b"\xfd7zXZ\x00": ("is compressed (xz)", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("is compressed (zstd)", _UNPACK),
    b"\x04\x22\x4d\x18": ("is compressed (lz4)", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("is a 7z archive", _UNPACK),
    b"Rar!\x1a\x07": ("is a rar archive", _UNPACK),
    b"\x89PNG": ("is an image (PNG)", _NO_TEXT),
    b"\xff\xd8\xff": ("is an image (JPEG)", _NO_TEXT),
    b"GIF8": ("is an image (GIF)", _NO_TEXT),
    b"RIFF": ("is an image, sound or film (RIFF)", _NO_TEXT),
    b"II*\x00": ("is an image (TIFF)", _NO_TEXT),
    b"MM\x00*": ("is an image (TIFF)", _NO_TEXT),
    b"OggS": ("is sound or film (Ogg)", _NO_TEXT),
    b"fLaC": ("is sound (FLAC)", _NO_TEXT),
    b"ID3": ("is sound (MP3)", _NO_TEXT),
    b"%PDF-": ("is a PDF", "save it as text"),
    b"{\\rtf": ("is a document (RTF)", "save it as text"),
    b"\xd0\xcf\x11\xe0": ("is a document of an old office program", "save it as text"),
    b"SQLite format 3\x00": ("is an SQLite database", "write its rows to a .jsonl file"),
    b"\x89HDF": ("is an HDF5 file", _NO_TEXT),
    b"\x93NUMPY": ("is an array of NumPy", _NO_TEXT),
    b"GGUF": ("is a model (GGUF)", _NO_TEXT),
    b"\x7fELF": ("is a program", _NO_TEXT),
}
_LIKE_TEXT = (b"BZh", b"GIF8", b"RIFF", b"OggS", b"fLaC", b"ID3", b"GGUF")  # a text may begin so
_UNMARKED = (  # of UTF-16 that lacks its mark: every other byte of the first letters is 0
    (re.compile(rb"(?:[\t\n\r -~]\x00){4}"), "UTF-16LE"),
    (re.compile(rb"(?:\x00[\t\n\r -~]){4}"), "UTF-16BE"),
)


def check_text(path: Path, head: bytes) -> None:
    """Raises mebp.Error where a file that begins with `head` is of another kind than text."""
    for beginning, (what, advice) in _BEGINNINGS.items():
        if head.startswith(beginning) and not (beginning in _LIKE_TEXT and is_text(head)):
            raise Error(f"{path}: {what}; {advice}")
    for pattern, name in _UNMARKED:
        if pattern.match(head):
            raise Error(f"{path}: is text in UTF-16; {_CONVERT.format(name)}")


def check_no_nul(path: Path, line: int, offset: int, content: bytes) -> None:
    """Raises mebp.Error where `content`, which begins at that line and byte of a file, has a NUL byte."""
    place = content.find(b"\0")
    if place >= 0:
        number = line + content.count(b"\n", 0, place)
        raise Error(f"{path}:{number}: has a NUL byte at byte {offset + place} of the file, as no text has; {_NO_TEXT}")


def is_text(head: bytes) -> bool:
    """Whether a file that begins with `head` can be text in UTF-8."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head
