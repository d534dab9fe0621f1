# SPDX-License-Identifier: Apache-2.0
"""What the C library says about names that are any bytes: always mebp.Error, one line that commands no terminal."""

import os
from pathlib import Path

import pytest

from mebp import Error
from mebp.extension import load_runtime
from mebp.inspect import inspect

_NAMES = {
    "commands and no UTF-8": b"\x1b[2J\xff\x9b\n.mebp",
    "long, cut in a character of 2 bytes": "é/".encode() * 300,
    "of 3": b"x" + "€/".encode() * 300,
    "of 4": b"xy" + "😀/".encode() * 300,
}


def _calls(path: str) -> dict[str, object]:
    runtime = load_runtime()
    return {
        "inspect": lambda: inspect(path),
        "Bundle": lambda: runtime.Bundle(path),
        "lock a folder": lambda: runtime.Lock(path + "/", True),
        "lock a file": lambda: runtime.Lock(path + "/file", False),
    }


@pytest.mark.parametrize("call", _calls(""))
@pytest.mark.parametrize("name", _NAMES.values(), ids=_NAMES)
def test_a_name_of_any_bytes_is_one_readable_line(tmp_path: Path, name: bytes, call: str) -> None:
    # A file in its way, so that no folder of this name can be made.
    (tmp_path / "file").touch()
    path = os.fsdecode(os.fsencode(tmp_path / "file") + b"/" + name)
    with pytest.raises(Error) as caught:
        _calls(path)[call]()
    line = str(caught.value)
    assert line.isprintable()
    line.encode()  # no halves of surrogate pairs
    if len(name) < 100:
        assert r"\x1b[2J\xff\x9b .mebp" in line


def test_a_folder_of_any_name_is_looked_into(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\x1b[2J\xff"))
    folder.mkdir()
    assert load_runtime().state_steps(folder) is None
    (folder / "state.bin").touch()
    with pytest.raises(Error, match=r"/\\x1b\[2J\\xff/state.bin: ") as caught:
        load_runtime().state_steps(folder)
    assert str(caught.value).isprintable()


def test_a_device_of_a_long_name_is_refused_in_one_readable_line() -> None:
    for start in ("", "x", "xy", "xyz"):
        with pytest.raises(Error, match="^there is no device"):
            load_runtime().check_device(start + "😀" * 400)
