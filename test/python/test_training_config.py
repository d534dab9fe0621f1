# SPDX-License-Identifier: Apache-2.0
"""Options from a YAML file, and a line for each thing that can be wrong with them."""

from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.training.config import read_config

KINDS = {"bundle": Path, "lr": float, "steps": int, "clip_recompute": bool, "schedule": str, "adapter_out": Path}


def read(tmp_path: Path, content: str) -> dict[str, object]:
    (tmp_path / "run.yaml").write_text(content)
    return read_config(tmp_path / "run.yaml", KINDS)


def test_each_type(tmp_path):
    content = "# a run\nbundle: a.mebp\nlr: 2e-4\nsteps: 3\nclip-recompute: true\nschedule: linear\nadapter-out: out\n"
    assert read(tmp_path, content) == {
        "bundle": Path("a.mebp"),
        "lr": 2e-4,
        "steps": 3,
        "clip_recompute": True,
        "schedule": "linear",
        "adapter_out": Path("out"),
    }


@pytest.mark.parametrize("content", ["", "# nothing\n", "lr:\n", "lr: null\n"])
def test_what_has_no_value_is_left_out(tmp_path, content):
    assert read(tmp_path, content) == {}


@pytest.mark.parametrize(("written", "value"), [("1", 1.0), ("0.5", 0.5), ("1e-3", 1e-3), ("1.0e-3", 1e-3)])
def test_numbers(tmp_path, written, value):
    assert read(tmp_path, f"lr: {written}\n") == {"lr": value}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("lr: 1\nlearning-rate: 1\n", ":2: unknown option 'learning-rate'; did you mean lr?"),
        ("adapter_uot: x\n", ":1: unknown option 'adapter_uot'; did you mean adapter_out?"),
        ("adapter-out: x\n\nadapter_out: y\n", ":3: 'adapter_out' is given twice, first in line 1; keep one"),
        ("steps: 1.5\n", ":1: steps is 1.5; give a whole number"),
        ("steps: true\n", ":1: steps is True; give a whole number"),
        ("lr: fast\n", ":1: lr is 'fast'; give a number"),
        ("lr: true\n", ":1: lr is True; give a number"),
        ("clip-recompute: 1\n", ":1: clip_recompute is 1; give true or false"),
        ("schedule: [linear]\n", ":1: schedule is ['linear']; give a string"),
        ("\nbundle: 3\n", ":2: bundle is 3; give a path"),
        ("- lr\n", ":1: is not a list of options; write one on each line, such as lr: 2e-4"),
        ("lr: [1\nsteps: 2\n", ":2: is not YAML (expected ',' or ']', but got ':'); correct it"),
        # What YAML reads as numbers of other bases and as dates is neither here.
        ("lr: 2024-99-99\n", ":1: lr is '2024-99-99'; give a number"),
        ("steps: 2024-01-01\n", ":1: steps is '2024-01-01'; give a whole number"),
        ("lr: 1:30\n", ":1: lr is '1:30'; give a number"),
        ("lr: 1:30.5\n", ":1: lr is '1:30.5'; give a number"),
        ("steps: 190:20:30\n", ":1: steps is '190:20:30'; give a whole number"),
        ("steps: 010\n", ":1: steps is '010'; give a whole number"),
        ("steps: 0x10\n", ":1: steps is '0x10'; give a whole number"),
        ("steps: 1_000\n", ":1: steps is '1_000'; give a whole number"),
        ("steps: 1180591620717411303424\n", ":1: steps is 1180591620717411303424; give a number below 2^63"),
        ("lr: -1180591620717411303424\n", ":1: lr is -1180591620717411303424; give a number below 2^63"),
        ("steps: " + "9" * 5000, ":1: steps is a number of 5,000 digits; give a smaller one"),
        ("lr: " + "9" * 400, f":1: lr is {'9' * 18}...{'9' * 19}; give a number below 2^63"),
        ("? [lr]\n: 1\n", ":1: has a list or a table where the name of an option goes; write one option a line"),
        ("{lr: 1}: 2\n", ":1: has a list or a table where the name of an option goes; write one option a line"),
        ("1: 2\n", ":1: unknown option '1'; there are bundle, lr, steps, clip_recompute, schedule, adapter_out"),
        ("<<: {a: 1}\n", ":1: unknown option '<<'; there are bundle, lr, steps, clip_recompute, schedule, adapter_out"),
        ('"a\\e[31m": 1\n', ":1: unknown option 'a\\x1b[31m'; there are bundle, lr, steps, clip_recompute, schedule, "
                            "adapter_out"),
        ("lr: {a: 1, a: 2}\n", ":1: lr is a table of its own; give one value, or a list of them"),
        ("lr: {<<: {b: 1}}\n", ":1: lr is a table of its own; give one value, or a list of them"),
        ("lr: [[1]]\n", ":1: lr is a list of lists or tables; give one value, or a list of them"),
        ("lr: &a 1\nlr: 2\n", ":2: 'lr' is given twice, first in line 1; keep one"),
        ("schedule: !!str linear\n", ":1: is not YAML (a tag, which no option needs); correct it"),
        ('schedule: "a\\0b"\n', ":1: schedule has the character U+0000, which no option needs; leave it out"),
        ('bundle: "a\\ud800"\n', ":1: bundle has the character U+D800, which no option needs; leave it out"),
        ('schedule: "\\UFFFFFFFF"\n', ": is not YAML (Python int too large to convert to C int); correct it"),
        ('schedule: "\\U00110000"\n', ": is not YAML (chr() arg not in range(0x110000)); correct it"),
        ("#" * (1 << 16) + "\n", ": is larger than 64 KiB; write one option on each line, such as lr: 2e-4"),
        ("lr: &a [1]\nsteps: *a\n", ":2: is not YAML (an alias, which no option needs); correct it"),
        ("lr: " + "[" * 5000, ":1: is not YAML (nested too deep); correct it"),
        ("- " * 5000, ": is nested too deep; write one option a line"),
        ("lr: [" + "a, " * 5000 + "]\n", ":1: lr is ['a', 'a', 'a', 'a', 'a', 'a', ...]; give a number"),
        ("lr: !!python/name:os.system\n", ":1: is not YAML (a tag, which no option needs); correct it"),
        ("lr: \x07\n", ": is not YAML (unacceptable character #x0007: special characters are not allowed in "
                       "\"<unicode string>\", position 4); correct it"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(tmp_path, content, message):
    with pytest.raises(Error) as caught:
        read(tmp_path, content)
    assert str(caught.value) == f"{tmp_path}/run.yaml{message}"


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(Error, match=r"none.yaml: cannot be read \(No such file or directory\); check --config"):
        read_config(tmp_path / "none.yaml", KINDS)
    (tmp_path / "latin.yaml").write_bytes(b"lr: \xff")
    with pytest.raises(Error, match=r"latin.yaml:1: is not UTF-8 at byte 4 of the file; convert it"):
        read_config(tmp_path / "latin.yaml", KINDS)
