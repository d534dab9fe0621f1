# SPDX-License-Identifier: Apache-2.0
"""Files that are no text are refused by what they are."""

import bz2
import gzip
import io
import lzma
import zipfile

import pytest

from mebp.data.forms import Document
from mebp.data.reading import read_samples
from mebp.errors import Error

LINES = b'{"text": "a"}\n{"text": "b"}\n'


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data.jsonl", LINES)
    return file.getvalue()


UNPACK, NO_TEXT = "unpack it, and give the file in it", "give text, or JSON lines"
FILES = {
    "zip": (zipped(), f"is a zip archive, or a document in one; {UNPACK}, or save the document as text"),
    "gzip": (gzip.compress(LINES), f"is compressed (gzip); {UNPACK}"),
    "bzip2": (bz2.compress(LINES), f"is compressed (bzip2); {UNPACK}"),
    "xz": (lzma.compress(LINES), f"is compressed (xz); {UNPACK}"),
    "utf-16": ("a\n".encode("utf-16"), "is text in UTF-16; convert it to UTF-8, as iconv -f UTF-16 -t UTF-8 does"),
    "utf-16le": (LINES.decode().encode("utf-16-le"),
                 "is text in UTF-16; convert it to UTF-8, as iconv -f UTF-16LE -t UTF-8 does"),
    "utf-16be": (LINES.decode().encode("utf-16-be"),
                 "is text in UTF-16; convert it to UTF-8, as iconv -f UTF-16BE -t UTF-8 does"),
    "utf-32": (LINES.decode().encode("utf-32"),
               "is text in UTF-32; convert it to UTF-8, as iconv -f UTF-32 -t UTF-8 does"),
    "png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", f"is an image (PNG); {NO_TEXT}"),
    "jpeg": (b"\xff\xd8\xff\xe0\0\x10JFIF", f"is an image (JPEG); {NO_TEXT}"),
    "pdf": (b"%PDF-1.7\n", "is a PDF; save it as text"),
    "gguf": (b"GGUF\x03\0\0\0", f"is a model (GGUF); {NO_TEXT}"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["data.jsonl", "data.txt", "data"])
@pytest.mark.parametrize(("content", "message"), FILES.values(), ids=FILES)
def test_a_file_that_is_no_text(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Error) as caught:
        read_samples(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: {message}"


@pytest.mark.parametrize("beginning", ["RIFFs and licks", "GIF89a is a format", "PAR10 seats", "ID3 tags", "BZh", "PK"])
def test_a_text_that_begins_like_one(tmp_path, beginning):
    (tmp_path / "data.txt").write_text(beginning)
    assert read_samples(tmp_path / "data.txt") == [Document(str(tmp_path / "data.txt"), beginning)]


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("data.txt", b"one\nt\0o\n", (2, 5)),
        ("data.txt", b"a\n" * 50_000 + b"\0", (50_001, 100_000)),
        ("data.jsonl", b'{"text": "a"}\n{"text": "\0"}\n', (2, 24)),
        ("data.json", b'[{"text": "a"},\n{"text": "\0"}]\n', (2, 26)),
    ],
)
def test_nul_bytes(tmp_path, name, content, place):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Error) as caught:
        read_samples(tmp_path / name)
    line, byte = place
    assert str(caught.value) == (
        f"{tmp_path / name}:{line}: has a NUL byte at byte {byte} of the file, as no text has; {NO_TEXT}"
    )
