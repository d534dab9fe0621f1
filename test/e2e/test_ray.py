# SPDX-License-Identifier: Apache-2.0
"""Runs in processes that Ray Train starts have the bits of one, also where one of them dies."""

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from support import ray
from support.commands import mebp as command
from support.soak import SOAK
from support.torchrun import expect_same_adapters, training

PAGE = Path(__file__).resolve().parents[2] / "docs" / "distributed.md"
pytestmark = pytest.mark.usefixtures("one_cache")
_SLOW = """
def slow():
    import mebp.training.objectives.base as base

    class Slow(base.GlobalBatch):
        def step(self, *arguments):
            Path(f"pid{os.environ['RANK']}").write_text(str(os.getpid()))
            time.sleep(0.1)
            return super().step(*arguments)

    base.GlobalBatch = Slow

begin(2, slow)
"""


def alone(lamp_model: Path, lamp_data: Path, out: Path, steps: int) -> None:
    done = command(*training(lamp_model, lamp_data, out, "--global-batch", 4, steps=steps))
    assert done.returncode == 0, done.stderr


def wait_for_steps(log: Path, steps: int, process: subprocess.Popen) -> None:
    until = time.monotonic() + 240
    while not (log.exists() and log.read_text().count("\n") >= steps):
        assert time.monotonic() < until and process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_workers_have_the_bits_of_one_process(lamp_model, lamp_data, tmp_path):
    """What docs/distributed.md shows; and another number goes on from its state. The port that is named for torch is in
    use. Ray is started for the first call alone, and leaves nothing in the folder."""
    (shown,) = re.findall(r"```python\n(import mebp.ray\n.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "model").symlink_to(lamp_model)
    one = command("train", lamp_model, "--data", lamp_data, "--global-batch", 4, "--epochs", 3, "--adapter-out",
                  tmp_path / "1")  # fmt: skip
    assert one.returncode == 0, one.stderr
    before = set(tmp_path.iterdir())
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        status, out, err = ray.run(tmp_path, f"""
os.environ["MASTER_PORT"] = "{taken.getsockname()[1]}"
{shown}
assert not ray.is_initialized()
begin(1)
for workers in ((1, 4), (2, 4)):
    try:
        run = mebp.ray.fit("model", {str(lamp_data)!r}, workers=workers, epochs=3, global_batch=4,
                           adapter_out="adapter", state="state", resume=True)
        print("more:", run.workers, run.steps, run.restarts)
    except Error as error:
        print(f"refused: {{error}}")
""")  # fmt: skip
    assert status == 0, out + err
    assert len(re.findall(r"^[12] process(?:es)?, --global-batch 4: the same bits as in one$", out, re.M)) == 2
    assert len(re.findall(r"^step 12/12  loss ", out, re.M)) == 1  # one of them shows the run
    assert re.search(r"^12 steps, loss \d\.\d{4}, 0 restarts: adapter\n", out, re.M)
    assert out.endswith(
        "more: 1 18 0\n"
        "refused: workers=(2, 4) reserve 2 CPUs, and Ray has 1; start it with more, or give fewer\n"
    )  # fmt: skip
    expect_same_adapters(tmp_path / "1", tmp_path / "adapter")
    assert {path.name for path in set(tmp_path.iterdir()) - before} == {"program.py", "adapter", "state"}
    assert not err, err


def test_a_killed_worker_changes_no_bit(lamp_model, lamp_data, tmp_path, show):
    """Each has a part of the optimizer's state and of the weights."""
    kills, steps = (5, 100) if SOAK else (1, 40)
    alone(lamp_model, lamp_data, tmp_path / "1", steps)
    log = tmp_path / "log.jsonl"
    program = _SLOW + (
        f"fit({str(lamp_model)!r}, {str(lamp_data)!r}, workers=2, global_batch=4, steps={steps}, adapter_out='out',\n"
        f"    max_failures={kills}, state='state', save_every=1, shard='weights', log='log.jsonl', interface='lo')\n"
    )
    took = []
    with ray.started(tmp_path, program) as process:
        for kill in range(kills):
            wait_for_steps(log, (log.read_text().count("\n") if log.exists() else 0) + 4, process)
            os.kill(int((tmp_path / f"pid{1 - kill % 2}").read_text()), signal.SIGKILL)
            began = time.monotonic()
            time.sleep(0.5)  # steps that were under way
            wait_for_steps(log, log.read_text().count("\n") + 1, process)
            took.append(time.monotonic() - began)
        out, err = process.communicate(timeout=500)
    assert process.returncode == 0, out + err
    assert out.count("continues after step") == kills and f"restarts={kills})" in out, out + err
    expect_same_adapters(tmp_path / "1", tmp_path / "out")
    show(f"Ray: from the kill of a worker to the next step {', '.join(f'{each:.1f}' for each in took)} s")
    assert not SOAK or max(took) < 60


def test_what_ends_a_run_is_one_line(lamp_model, lamp_data, tmp_path):
    """Ray does not try again what another start would not change, whichever rank says it."""
    status, out, err = ray.run(tmp_path, f"""
def failing():
    import mebp.training.objectives.base as base
    from mebp.training.request import Request

    from mebp.words import say

    of = Request.of.__func__
    def lacking(kind, given):
        if os.environ["RANK"] == "0":
            say("a start")
        if os.environ["RANK"] == "1" and given["seed"] == 1:
            raise Error("data.jsonl: no such file; copy it to this machine")
        return of(kind, given)

    class Dying(base.GlobalBatch):
        def step(self, *arguments):
            if os.environ["RANK"] == "1":
                os.kill(os.getpid(), 9)
            return super().step(*arguments)

    Request.of, base.GlobalBatch = classmethod(lacking), Dying

begin(2, failing)
for options in (
    dict(max_failures=3, state="state", seed=1),
    dict(max_failures=3, state="state", seed=2, train="full", adapter_out="new"),
    dict(seed=2),
):
    try:
        fit({str(lamp_model)!r}, {str(lamp_data)!r}, workers=2, global_batch=4, steps=7, **options)
    except Error as error:
        print(f"refused: {{error}}")
""")  # fmt: skip
    assert status == 0, out + err
    assert re.findall("^refused: (.*)$", out, re.M) == [
        "data.jsonl: no such file; copy it to this machine",
        "--adapter-out new: --train full has no adapter; leave it out, and give --model-out",
        "rank 1 has died, and max_failures=0 leaves no restart; give more, and state=DIR to go on from",
    ]
    assert out.count("a start\n") == 3
    assert not (tmp_path / "new").exists()


def test_ctrl_c_stops_all_at_one_step_and_saves(lamp_model, lamp_data, tmp_path):
    """A terminal sends it to all processes."""
    program = (
        _SLOW
        + f"""
try:
    fit({str(lamp_model)!r}, {str(lamp_data)!r}, workers=2, global_batch=4, steps=100000, adapter_out="out",
        state="state", log="log.jsonl")
except KeyboardInterrupt as stop:
    print(stop)
"""
    )
    with ray.started(tmp_path, program) as process:
        wait_for_steps(tmp_path / "log.jsonl", 2, process)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    stopped = re.findall(r"^stopped after step (\d+)", out, re.MULTILINE)
    steps = len((tmp_path / "log.jsonl").read_text().splitlines())
    assert stopped == [str(steps)] * 2, out + err
    assert (tmp_path / "out" / "adapter_model.safetensors").is_file() and (tmp_path / "state" / "state.bin").is_file()
