# SPDX-License-Identifier: Apache-2.0
"""Several processes that send less than gradients, or weigh them, have the bits of one."""

import re

import pytest

from support.commands import mebp as command
from support.torchrun import expect_same_adapters, expect_the_bits_of_one, torchrun, training

pytestmark = pytest.mark.usefixtures("one_cache")
GALORE = "--train", "full", "--optimizer", "galore", "--galore-rank", 8, "--galore-update-interval", 3
QGALORE = "--train", "full", "--weights", "int8", "--optimizer", "qgalore", "--galore-rank", 8
MEZO = "--optimizer", "mezo", "--weight-decay", "0.1"


@pytest.mark.parametrize(
    ("by", "options"),
    [
        ("4", MEZO),
        ("4", [*GALORE, "--clip", "0.5"]),
        ("2", [*GALORE, "--galore-refresh", "svd"]),
        ("2", QGALORE),
    ],
    ids=["mezo", "galore", "galore, exactly", "qgalore"],
)
def test_less_than_gradients(lamp_model, lamp_data, tmp_path, by, options):
    """An epoch's last step has fewer micro-batches than processes."""
    expect_the_bits_of_one(lamp_model, lamp_data, tmp_path, *options, by=by, steps=7, but=["loss"])


def test_weighed_turns(lamp_model, lamp_turns, tmp_path):
    """To the last digit of the log, in which each file has a loss of its own."""
    other = tmp_path / "other.jsonl"
    other.write_text("".join(lamp_turns.read_text().splitlines(keepends=True)[::3]))
    options = "--turn-weights", "--seq-len", 64, "--data", other, "--clip", "0.5"
    expect_the_bits_of_one(lamp_model, lamp_turns, tmp_path, *options, by="4", steps=7)
    assert "loss/other" in (tmp_path / "4.jsonl").read_text()


@pytest.mark.parametrize("options", [MEZO, GALORE], ids=["mezo", "galore"])
def test_a_state_is_continued_by_another_number(lamp_model, lamp_data, tmp_path, options):
    """Of GaLore, it has the subspaces, which the run goes on with before it finds new ones."""
    shared = "--global-batch", 4, *options
    whole = command(*training(lamp_model, lamp_data, tmp_path / "whole", *shared, steps=8))
    assert whole.returncode == 0, whole.stderr
    for processes, steps, resume in ((2, 4, []), (4, 8, ["--resume"])):
        kept = "--state", tmp_path / "state", *resume
        run = training(lamp_model, lamp_data, tmp_path / "out", *shared, *kept, steps=steps)
        status, out, err = torchrun(processes, "-m", "--", "mebp", *run)
        assert status == 0, out + err
    assert re.search(r"continues after step 4\b", out), out
    expect_same_adapters(tmp_path / "whole", tmp_path / "out")
