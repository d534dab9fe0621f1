# SPDX-License-Identifier: Apache-2.0
"""What a command may write over: a file of the same kind that mebp wrote earlier, never another and never an input."""

import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mebp.errors import Error, translate_errors

MARK = "written by mebp"  # in every picture and page of ours, where their formats have a place for it
_END = 1 << 16  # bytes at each end of a file: that is where the marks are


@dataclass(frozen=True)
class Kind:
    """A kind of file that mebp writes."""

    name: str  # as in "is not NAME"
    recognise: Callable[[bytes], bool]  # by what the file begins and ends with
    may_be_a_stream: bool = False  # a device or a pipe, which holds nothing to lose


def check_output(option: str, path: Path, kind: Kind, inputs: Mapping[str, Path | None]) -> bool:
    """Whether writing `path` replaces an older file of this kind; where it would replace anything else, mebp.Error.

    inputs: what the command reads, files or folders, by their options.
    """
    check_no_input(option, path, inputs)
    with translate_errors(f"{option} {path}: cannot be read", "choose another"):
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        if kind.may_be_a_stream and (stat.S_ISCHR(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
            return False
        if not stat.S_ISREG(status.st_mode):
            raise Error(f"{option} {path}: something else is there; choose another")
        if status.st_size and not kind.recognise(_ends(path)):
            raise Error(f"{option} {path}: exists and is not {kind.name}; choose another")
    return status.st_size > 0


def check_no_input(option: str, path: Path, inputs: Mapping[str, Path | None]) -> None:
    """Raises mebp.Error where the output `path` is one of `inputs`, whatever either is called."""
    for name, read in inputs.items():
        if read is not None and is_same(path, read):
            raise Error(f"{option} {path}: is also {name}, which would be lost; choose another")


def is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one is not there
        return os.path.abspath(one) == os.path.abspath(other)


def _ends(path: Path) -> bytes:
    with path.open("rb") as file:
        begin = file.read(_END)
        file.seek(max(_END, path.stat().st_size - _END))
        return begin + file.read(_END)


def _is_log(content: bytes) -> bool:
    if content.startswith(b"step,loss,grad_norm,lr,"):
        return True
    try:
        keys = json.loads(content.splitlines()[0]).keys()
    except (ValueError, AttributeError, RecursionError):
        return False
    return keys >= {"step", "loss", "grad_norm", "peak_bytes"} or keys >= {"step", "eval_loss"}


def _is_picture(content: bytes) -> bool:
    return content.startswith((b"\x89PNG", b"<?xml", b"%PDF", b"\xff\xd8")) and MARK.encode() in content


def _is_page(content: bytes) -> bool:
    return content.startswith(b"<!doctype html>") and MARK.encode() in content


def _is_trace(content: bytes) -> bool:
    return content.startswith((b'[\n{"name": "', b"[\n]")) and (b'"args": {"source": ' in content or len(content) < 5)


def _is_rates(content: bytes) -> bool:
    return content.startswith(b"{") and b'"processor":' in content and b'"nanoseconds":' in content


def _is_onnx(content: bytes) -> bool:
    return content.startswith(b"\x08")  # the tag of ir_version, which comes first


LOG = Kind("a log of mebp train", _is_log, may_be_a_stream=True)
PICTURE = Kind("a loss curve of mebp train", _is_picture)
PAGE = Kind("a page of mebp", _is_page)
TRACE = Kind("a profile of mebp", _is_trace, may_be_a_stream=True)
ONNX = Kind("an ONNX model", _is_onnx)
RATES = Kind("a file of mebp calibrate", _is_rates)
