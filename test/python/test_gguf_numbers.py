# SPDX-License-Identifier: Apache-2.0
"""Numbers of a GGUF file's metadata are set in place."""

from pathlib import Path

import gguf
import numpy as np
import pytest

import mebp
from mebp.gguf.container import read_container
from mebp.gguf.numbers import set_numbers


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "file.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_float32("mebp.loss.merged", float("nan"))
    writer.add_uint32("mebp.whole", 3)
    writer.add_tensor("x", np.arange(4, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_rest_stays(file):
    before = file.read_bytes()
    set_numbers(file, {"mebp.loss.merged": 1.5})
    after = file.read_bytes()
    assert read_container(file).metadata["mebp.loss.merged"] == 1.5
    assert len(after) == len(before) and sum(map(int.__ne__, before, after)) <= 4


@pytest.mark.parametrize("key", ["mebp.other", "mebp.whole"])
def test_what_is_no_number_of_the_file(file, key):
    before = file.read_bytes()
    with pytest.raises(mebp.Error, match=f"file.gguf: has no number '{key}'; merge it again"):
        set_numbers(file, {key: 1.0})
    assert file.read_bytes() == before
