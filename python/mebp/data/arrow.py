# SPDX-License-Identifier: Apache-2.0
"""Tables of Parquet and Arrow (feather), by pyarrow: a few rows at a time, whatever the size of a row group."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mebp.data.content import is_text
from mebp.errors import translate_errors
from mebp.extras import need_packages

if TYPE_CHECKING:
    from pyarrow import PythonFile, RecordBatch

_PARQUET, _ARROW, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_KINDS = {_PARQUET: "a Parquet table", _ARROW: "an Arrow table", _STREAM: "an Arrow table"}
_ROWS = 256  # that become Python objects at once
_BUFFER = 1 << 20  # bytes of a column that are read at once


def find_kind(head: bytes) -> bytes | None:
    """By how a file begins; a text may begin so, too."""
    found = next((beginning for beginning in _KINDS if head.startswith(beginning)), None)
    return None if found is None or is_text(head) else found


def rows_of_arrow(path: Path, kind: bytes, file: BinaryIO) -> Iterator[tuple[int, dict[str, object]]]:
    """Each row with its number, from 1; raises mebp.Error where pyarrow is not there or cannot read the file."""
    need_packages(f"{path}: {_KINDS[kind]}, which", "parquet", "pyarrow")
    from pyarrow import PythonFile

    number = 0
    with translate_errors(f"{path}: cannot be read as {_KINDS[kind]}", "make or download it again", Exception):
        for batch in _batches(kind, PythonFile(file, mode="r")):
            for start in range(0, batch.num_rows, _ROWS):
                for row in batch.slice(start, _ROWS).to_pylist():
                    number += 1
                    yield number, row


def _batches(kind: bytes, file: "PythonFile") -> "Iterator[RecordBatch]":
    if kind == _PARQUET:
        from pyarrow.parquet import ParquetFile

        yield from ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False).iter_batches(_ROWS)
        return
    from pyarrow import ipc

    if kind == _STREAM:
        yield from ipc.open_stream(file)
        return
    reader = ipc.open_file(file)
    yield from map(reader.get_batch, range(reader.num_record_batches))
