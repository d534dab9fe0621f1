# SPDX-License-Identifier: Apache-2.0
"""Runs in several processes, which torchrun starts, have the bits of one."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from mebp.version import __version__
from support.commands import mebp as command
from support.pipeline import make_bundle
from support.torchrun import (
    expect_same_adapters,
    own_lines,
    slow_program,
    start,
    torchrun,
    training,
    wait_for_steps,
)

pytestmark = pytest.mark.usefixtures("one_cache")
PACKAGE = Path(__file__).resolve().parents[2] / "python" / "mebp"


@pytest.mark.parametrize(
    "options",
    [["--clip", "0.5", "--lora-dropout", "0.2"], ["--packing", "--optimizer", "adamw8bit"]],
    ids=["clipped, with dropout", "packed"],
)
def test_two_and_four_have_the_bits_of_one(lamp_model, lamp_data, tmp_path, options):
    alone = command(*training(lamp_model, lamp_data, tmp_path / "1", "--global-batch", 4, *options))
    assert alone.returncode == 0, alone.stderr
    for processes in (2, 4):
        log = tmp_path / f"{processes}.jsonl"
        run = training(lamp_model, lamp_data, tmp_path / str(processes), "--global-batch", 4, "--log", log, *options)
        status, out, err = torchrun(processes, "-m", "--", "mebp", *run)
        assert status == 0, err
        assert out.splitlines()[0] == f"{processes} processes, --global-batch 4: the same bits as in one"
        expect_same_adapters(tmp_path / "1", tmp_path / str(processes))
        assert len(re.findall(r"^step 7/7 ", out, re.MULTILINE)) == 1  # one of them shows the run
        assert all(1 <= json.loads(line)["imbalance"] < 2 for line in log.read_text().splitlines())


def test_another_number_is_equal_but_for_rounding(lamp_model, lamp_data, tmp_path):
    """Without --global-batch, each takes what --accumulate says: six, of which no power of two is each one's."""
    alone = command(*training(lamp_model, lamp_data, tmp_path / "1", "--accumulate", 6))
    assert alone.returncode == 0, alone.stderr
    status, out, err = torchrun(2, "-m", "mebp", *training(lamp_model, lamp_data, tmp_path / "2", "--accumulate", 3))
    assert status == 0 and out.startswith("2 processes, --global-batch 6: as in one, but for rounding\n"), err
    expected, found = (load_file(tmp_path / name / "adapter_model.safetensors") for name in "12")
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, atol=5e-3, err_msg=key)


@pytest.mark.parametrize(
    ("differs", "words"),
    [
        ('given += ["--warmup", "3"]', "--warmup 3, and rank 0 has 0"),
        ("given[3] = {data!r}", r"the data [0-9a-f]+, and rank 0 has [0-9a-f]+"),
        ("given[1] = {bundle!r}", r"the bundle [0-9a-f]+, and rank 0 has [0-9a-f]+"),
        ('global_batch.__version__ = "0.1"', rf"mebp 0\.1, and rank 0 has {re.escape(__version__)}"),
    ],
)
def test_ranks_that_differ_are_named_in_one_line(lamp_model, lamp_data, tmp_path, differs, words):
    program, other = tmp_path / "program.py", tmp_path / "other"
    other.mkdir()
    lengths = {tmp_path: 64, other: 96}
    bundle, of_other = (make_bundle(lamp_model, folder, seq_len=length) for folder, length in lengths.items())
    (other / lamp_data.name).write_text(lamp_data.read_text() * 2)
    given = ["train", str(bundle), "--data", str(lamp_data), "--steps", "7", "--adapter-out", str(tmp_path / "out")]
    program.write_text(f"""import os, sys
import mebp.distributed.global_batch as global_batch
from mebp.cli import main
given = {given!r}
if os.environ["RANK"] == "1":
    {differs.format(data=str(other / lamp_data.name), bundle=str(of_other))}
sys.exit(main(given))
""")
    status, _, err = torchrun(2, program)
    (line,) = own_lines(err)
    assert re.fullmatch(f"mebp: rank 1 has {words}; start all alike", line)
    assert status != 0 and not (tmp_path / "out").exists()


def test_adapters_that_drift_apart_are_found(lamp_model, lamp_data, tmp_path):
    program = tmp_path / "program.py"
    given = [str(each) for each in training(lamp_model, lamp_data, tmp_path / "out", steps=60)]
    program.write_text(f"""import os, sys
import mebp.training.objectives.base as base
from mebp.cli import main

class Drifting(base.GlobalBatch):
    def step(self, session, batches):
        if os.environ["RANK"] == "1" and session.steps == 7:
            session.set_trainables({{key: value + 1 for key, value in session.trainables().items()}})
        return super().step(session, batches)

base.GlobalBatch = Drifting
sys.exit(main({given!r}))
""")
    _, _, err = torchrun(2, program)
    (line,) = own_lines(err)
    assert line.startswith("mebp: step 50: rank 1 has another adapter than rank 0; see whether their machines are ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--global-batch", "1"],
         "--global-batch 1: 2 processes need a micro-batch each; give at least 2, or start fewer"),
        (["--pause-on", "SIGUSR1", "--state", "state"],
         "--pause-on is of a run in one process, and torchrun has started 2; leave it out"),
        (["--judge", "--test", "data.jsonl"],
         "--judge is of a run in one process, and torchrun has started 2; leave it out"),
    ],
)  # fmt: skip
def test_refusals_are_one_line(lamp_model, lamp_data, tmp_path, options, words):
    status, _, err = torchrun(2, "-m", "mebp", *training(lamp_model, lamp_data, tmp_path / "out", *options))
    assert own_lines(err) == [f"mebp: {words}"]
    assert status != 0 and not (tmp_path / "out").exists()


def test_half_of_a_split_model_is_refused(lamp_data, tmp_path):
    status, _, err = torchrun(2, "-m", "mebp", "train", tmp_path / "tiny.edge.mebp", "--data", lamp_data, "--connect",
                              "127.0.0.1:1")  # fmt: skip
    assert own_lines(err) == ["mebp: --connect is of a run in one process, and torchrun has started 2; leave it out"]
    assert status != 0


@pytest.mark.parametrize(
    ("agents", "processes", "shard"), [(1, 2, "none"), (1, 4, "weights"), (2, 1, "optimizer"), (2, 1, "none")]
)
def test_a_killed_rank_changes_no_bit(lamp_model, lamp_data, tmp_path, agents, processes, shard, unused_port):
    """torchrun starts all again, and they go on from the state that rank 0 wrote. Nothing has to be set for it."""
    options = "--global-batch", 4, "--save-every", 1
    alone = command(*training(lamp_model, lamp_data, tmp_path / "1", *options, steps=40))
    assert alone.returncode == 0, alone.stderr
    log = tmp_path / "log.jsonl"
    more = *options, "--shard", shard, "--state", tmp_path / "state", "--resume", "--log", log
    program = slow_program(tmp_path, training(lamp_model, lamp_data, tmp_path / "out", *more, steps=40))
    port = unused_port if agents > 1 else 0
    started = [start(processes, program, restarts=2, meeting=port) for _ in range(agents)]
    last = agents * processes - 1
    for kill in range(2):
        before = log.read_text().count("\n") if log.exists() else 0
        wait_for_steps(log, before + 4, started[0])
        os.kill(int((tmp_path / f"pid{last - kill}").read_text()), signal.SIGKILL)
    said = [agent.communicate(timeout=300) for agent in started]
    assert [agent.returncode for agent in started] == [0] * agents, said
    assert "".join(out for out, _ in said).count("continues after step") == 2, said
    expect_same_adapters(tmp_path / "1", tmp_path / "out")


def test_a_state_is_continued_by_another_number(lamp_model, lamp_data, tmp_path):
    """It names the global batch, and never the processes."""
    options = "--global-batch", 4, "--state", tmp_path / "state"
    whole = command(*training(lamp_model, lamp_data, tmp_path / "whole", "--global-batch", 4))
    assert whole.returncode == 0, whole.stderr
    first = training(lamp_model, lamp_data, tmp_path / "out", *options, "--epochs", 1)
    del first[first.index("--steps") : first.index("--steps") + 2]
    for processes, run in (
        (2, [*first]),
        (4, training(lamp_model, lamp_data, tmp_path / "out", *options, "--resume")),
    ):
        status, out, err = torchrun(processes, "-m", "--", "mebp", *run)
        assert status == 0, out + err
    expect_same_adapters(tmp_path / "whole", tmp_path / "out")


def test_a_machine_without_the_bundle_gets_it(lamp_model, lamp_data, tmp_path, unused_port):
    """Another cache stands for another machine. Its weights are checked, and it is kept for the next run."""
    alone = command(*training(lamp_model, lamp_data, tmp_path / "1", "--global-batch", 2))
    assert alone.returncode == 0, alone.stderr
    program = tmp_path / "program.py"
    program.write_text(f"""import os, sys
from mebp.cli import main
import mebp.distributed.bundles as bundles
if os.environ["RANK"] == "1":
    os.environ["MEBP_CACHE"] = {str(tmp_path / "cache")!r}
    known = bundles._is
    bundles._is = lambda path, digest: str(path).startswith({str(tmp_path / "cache")!r}) and known(path, digest)
sys.exit(main({[str(each) for each in training(lamp_model, lamp_data, tmp_path / "2", "--global-batch", 2)]!r}))
""")
    for received in (True, False):
        agents = [start(1, program, meeting=unused_port) for _ in range(2)]
        said = [agent.communicate(timeout=300) for agent in agents]
        assert [agent.returncode for agent in agents] == [0, 0], said
        assert ("rank 1: receives tiny.mebp, " in "".join(err for _, err in said)) == received
        expect_same_adapters(tmp_path / "1", tmp_path / "2")
        shutil.rmtree(tmp_path / "2")
    (kept,) = (tmp_path / "cache" / "bundles").glob("of-rank-0-*/tiny.mebp")
    assert (kept / "weights.bin").is_file()


def test_nothing_of_another_process_is_unpickled():
    """Nor run: what comes are arrays of numbers, and JSON."""
    for path in sorted([*(PACKAGE / "distributed").rglob("*.py"), *(PACKAGE / "ray").rglob("*.py")]):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"_object(s|_list)?\(|import pickle|pickle\.|torch\.load|\beval\(|\bexec\(", text), path
