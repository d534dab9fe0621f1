# SPDX-License-Identifier: Apache-2.0
"""Every write, sync and rename fails once, or the process is killed there: what was promised before is whole then,
and the run goes on bitwise. `make test` tries some of these calls, `make soak` (MEBP_SOAK) all of them."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mebp.tools import find_tool
from support.commands import TIMEOUT
from support.soak import SOAK
from support.textmodel import TEXT

FAULTS = ("short", "ENOSPC", "EIO", "kill")
KILLED = -9


@dataclass(frozen=True)
class Done:
    status: int
    output: str
    errors: str
    calls: int  # that could have failed; 0 of a killed process


def run(command: list, root: Path, at: int = 0, fault: str = "", **settings: object) -> Done:
    """Runs it with its `at`-th call on files below `root` failing."""
    count = root.with_name("count")
    count.unlink(missing_ok=True)
    faults = {
        "LD_PRELOAD": Path(find_tool("mebp-run")).resolve().with_name("faults.so"),
        "MEBP_FAULT_ROOT": root, "MEBP_FAULT_AT": at, "MEBP_FAULT": fault, "MEBP_FAULT_COUNT": count, **settings,
    }  # fmt: skip
    environment = os.environ | {name: str(value) for name, value in faults.items()}
    done = subprocess.run(
        [str(part) for part in command], env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    calls = int(count.read_text()) if count.exists() else 0
    return Done(done.returncode, done.stdout, done.stderr, calls)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def try_all(name: str, calls: int, few: int, attempt: Callable[[int, str], Done], show: Callable) -> None:
    """Each call with each fault, or so `few` calls, others each time, with one fault after the other."""
    assert calls > few
    seed = random.randrange(1000)
    print(f"seed {seed}")
    some = sorted(random.Random(seed).sample(range(1, calls + 1), few))
    cases = [(at, fault) for at in range(1, calls + 1) for fault in FAULTS] if SOAK else [
        (at, FAULTS[index % len(FAULTS)]) for index, at in enumerate(some)
    ]  # fmt: skip
    outcomes: Counter = Counter()
    for at, fault in cases:
        print(f"{name}: call {at} of {calls}: {fault}")
        done = attempt(at, fault)
        assert done.status in ({KILLED} if fault == "kill" else {0} if fault == "short" else {0, 2}), done
        if done.status == 2:
            assert len(done.errors.strip().splitlines()) == 1 and "Traceback" not in done.errors, done.errors
        outcomes[f"{fault}: {'killed' if done.status < 0 else 'refused' if done.status else 'went on'}"] += 1
    counts = ", ".join(f"{what} {count}" for what, count in sorted(outcomes.items()))
    show(f"faults in {name}: {len(cases)} at {calls} calls; {counts}; all resumed")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokens.npy"
    np.save(path, np.random.default_rng(0).integers(0, 250, (8, 32), dtype=np.int32))
    return path


def steps_of(done: Done) -> list[int]:
    lines = [json.loads(line) for line in done.output.splitlines() if line.startswith('{"step"') and line[-1] == "}"]
    return [line["step"] for line in lines]


def promised(adapter: dict[str, bytes]) -> dict[str, bytes]:
    """The adapter itself. Beside it, a card and a curve tell of times, too."""
    return {
        name: content
        for name, content in adapter.items()
        if name.startswith("adapter_") and "." in name and not name.endswith(".new")
    }


@dataclass(frozen=True)
class Trainer:
    """`mebp-run` or `mebp train` on the folder `work`."""

    command: list
    work: Path
    names: tuple[str, ...]  # of what is in `work` after a run

    def __call__(self, steps: int, *more: object, at: int = 0, fault: str = "", **settings: object) -> Done:
        folders = ["--state", self.work / "state", "--adapter-out", self.work / "adapter"]
        log = ["--log", self.work / "log"] if "log" in self.names else []
        return run([*self.command, *folders, *log, "--steps", steps, "--save-every", 1, *more], self.work, at, fault,
                   **settings)  # fmt: skip

    def check(self, allowed: list[dict[str, bytes]], killed: bool) -> None:
        """What is there after a fault: an adapter of this run, whole; only a kill may leave scratch files beside it."""
        adapter = tree(self.work / "adapter")
        assert promised(adapter) in [promised(one) for one in allowed]
        assert killed or not {name for name in adapter if "writing" in name}

    def check_end(self, whole: dict[str, bytes], seen: list[tuple[int, float]]) -> None:
        assert sorted(path.name for path in self.work.iterdir()) == sorted(self.names)
        adapter = tree(self.work / "adapter")
        assert (set(adapter), promised(adapter)) == (set(whole), promised(whole))
        assert set(tree(self.work / "state")) == {"state.bin", "state.previous.bin"}
        if "log" in self.names:
            assert losses(self.work / "log") == seen


def losses(log: Path) -> list[tuple[int, float]]:
    return [(entry["step"], entry["loss"]) for entry in map(json.loads, log.read_text().splitlines())]


def try_trainer(trainer: Trainer, name: str, few: int, show: Callable) -> None:
    work = trainer.work
    assert trainer(4).status == 0
    whole, seen = tree(work / "adapter"), losses(work / "log") if "log" in trainer.names else []
    shutil.rmtree(work)
    assert trainer(2).status == 0
    first = tree(work / "adapter")
    assert first != whole
    before = work.with_name("before")
    shutil.copytree(work, before)
    assert trainer(3, "--resume").status == 0
    ended_early = tree(work / "adapter")  # where a save fails after the third step, and the run saves what it has

    def attempt(at: int, fault: str) -> Done:
        shutil.rmtree(work)
        shutil.copytree(before, work)
        done = trainer(4, "--resume", at=at, fault=fault)
        trainer.check([first, ended_early, whole], killed=done.status == KILLED)
        resumed = trainer(4, "--resume")
        assert resumed.status == 0, (done, resumed)
        assert "damaged" not in resumed.errors + resumed.output and "no state" not in resumed.errors + resumed.output
        if "--json" in trainer.command and steps_of(resumed):  # a step is printed when the one before it is saved
            assert steps_of(resumed)[0] >= max(steps_of(done), default=3)
        trainer.check_end(whole, seen)
        return done

    calls = attempt(0, "").calls
    try_all(name, calls, few, attempt, show)


def test_state_and_adapter_of_mebp_run(bundle, tokens, tmp_path, show):
    command = [find_tool("mebp-run"), bundle, "--tokens", tokens, "--lr", 1e-2, "--threads", 1, "--json"]
    try_trainer(Trainer(command, tmp_path / "work", ("adapter", "state")), "mebp-run", 24, show)


def test_state_adapter_and_log_of_mebp_train(bundle, tmp_path, show):
    data = tmp_path / "data.txt"
    data.write_text(TEXT)
    command = [sys.executable, "-m", "mebp", "train", bundle, "--data", data, "--lr", 1e-2, "--threads", 1]
    try_trainer(Trainer(command, tmp_path / "work", ("adapter", "log", "state")), "mebp train", 4, show)


def test_a_bundle(bundle, tmp_path, show):
    work, old, other = tmp_path / "work", tmp_path / "old", tmp_path / "other"
    command = [find_tool("mebpc"), bundle.parent / "model.onnx", "--threads", 1, "-o"]
    assert run([*command, old, "--lora-rank", 2], work).status == 0
    assert run([*command, other, "--lora-rank", 3], work).status == 0

    def attempt(at: int, fault: str) -> Done:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(old, work / "model.mebp")
        again = [*command, work / "model.mebp", "--lora-rank", 3]
        done = run(again, work, at, fault)
        assert tree(work / "model.mebp") in ([tree(other)] if done.status == 0 else [tree(old), tree(other)])
        assert run(again, work).status == 0
        assert tree(work) == {f"model.mebp/{name}": content for name, content in tree(other).items()}
        assert [path.name for path in work.iterdir()] == ["model.mebp"]
        return done

    try_all("mebpc", attempt(0, "").calls, 8, attempt, show)


def test_a_run_that_is_killed_at_random_moments_ends_bitwise_the_same(bundle, tokens, tmp_path, show):
    work = tmp_path / "work"
    command = [find_tool("mebp-run"), bundle, "--tokens", tokens, "--lr", 1e-3, "--threads", 1, "--json"]
    trainer = Trainer(command, work, ("adapter", "state"))
    steps, kills = 400, 30 if SOAK else 3
    assert trainer(steps).status == 0
    whole = tree(work / "adapter")
    shutil.rmtree(work)
    seed = random.randrange(1000)
    print(f"seed {seed}")
    moments = random.Random(seed)
    folders = ["--state", work / "state", "--adapter-out", work / "adapter", "--save-every", 1, "--resume"]
    resumed = [str(part) for part in [*command, "--steps", steps, *folders]]
    said, killed = 0, 0
    for left in range(kills, 0, -1):
        last = said + moments.randint(1, max(1, (steps - said) // (left + 1)))
        process = subprocess.Popen(resumed, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
        seen = []
        for line in process.stdout:  # on a busy machine the run may be many lines ahead of this reader
            seen += [json.loads(line).get("step", steps)]
            if seen[-1] >= last:
                break
        time.sleep(moments.uniform(0, 0.005))
        process.kill()
        status = process.wait()
        process.stdout.close()
        assert seen[0] >= said  # a step is printed when the one before it is saved
        said = seen[-1]
        if status != KILLED:  # it was done before it could be killed
            assert status == 0
            break
        killed += 1
    assert killed
    done = trainer(steps, "--resume")
    assert done.status == 0 and "damaged" not in done.errors, done.errors
    trainer.check_end(whole, [])
    show(f"kill -9 at {killed} random moments, seed {seed}, the last after step {said} of {steps}: resumed bitwise")


def test_room_on_the_disk_is_compared_with_what_a_run_will_write(bundle, tokens, tmp_path):
    work = tmp_path / "work"
    command = [find_tool("mebp-run"), bundle, "--tokens", tokens]
    work.mkdir()
    refused = Trainer(command, work, ())(2, MEBP_FREE_BYTES=4096)
    assert refused.status == 2 and not any(work.iterdir())
    assert re.fullmatch(
        rf"mebp-run: {work}/state: the run writes up to \d+\.\d MB to this disk and 0\.0 MB are free; make room or "
        r"choose another folder\n",
        refused.errors,
    )
    compiled = run(
        [find_tool("mebpc"), bundle.parent / "model.onnx", "-o", tmp_path / "new.mebp"], work, MEBP_FREE_BYTES=4096
    )
    assert compiled.status == 2 and not (tmp_path / "new.mebp").exists()
    assert re.search(
        r"new\.mebp: the bundle needs \d+\.\d MB here and 0\.0 MB are free; make room or choose another folder$",
        compiled.errors,
    )
