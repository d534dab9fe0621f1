# SPDX-License-Identifier: Apache-2.0
"""Runs of preferences and rewards that are killed with -9 at random moments go on with the same bits and rollouts,
whatever the number of threads. `make test` kills one run of each, `make soak` (MEBP_SOAK) ten in all."""

import json
import os
import random
import time
from pathlib import Path

import pytest

from support import models
from support.commands import has_lines, mebp, running
from support.pipeline import make_bundle
from support.textmodel import make_tokenizer

KILLS = 10 if os.environ.get("MEBP_SOAK") else 2
STEPS, LENGTH, ROOM = 8, 48, 12
PAIRS = [{"prompt": f"Lamp {number}", "chosen": " is lit." * (1 + number % 3), "rejected": " is out."}
         for number in range(5)]  # fmt: skip
# What it scores, it writes down: texts of a step that is made again must be the same.
REWARD = """
import json
from pathlib import Path

def high(completion_ids, trainer_state, **columns):
    with open(Path(__file__).with_name("written"), "a") as file:
        file.write(json.dumps([trainer_state.global_step, completion_ids]) + "\\n")
    return [sum(ids) / (300 * len(ids)) for ids in completion_ids]
"""
OPTIONS = {
    "dpo": ["--accumulate", 2],
    "grpo": ["--group", 4, "--max-completion", ROOM, "--num-iterations", 2, "--beta", 0.04, "--accumulate", 2],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("objective-kills")
    models.save(models.build("llama", num_hidden_layers=2), folder / "source")
    make_tokenizer(folder / "source")
    (folder / "dpo.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
    (folder / "grpo.jsonl").write_text("".join(json.dumps({"prompt": pair["prompt"]}) + "\n" for pair in PAIRS))
    return folder


@pytest.fixture(scope="module")
def bundle(folder) -> Path:
    return make_bundle(folder / "source", folder, seq_len=LENGTH, generate_len=LENGTH)


def run_of(objective: str, bundle: Path, folder: Path, name: str, threads: int) -> list[object]:
    place = folder / name
    place.mkdir(exist_ok=True)
    (place / "reward.py").write_text(REWARD)
    reward = ["--reward", f"{place / 'reward.py'}:high"] if objective == "grpo" else []
    return ["train", bundle, "--data", folder / f"{objective}.jsonl", "--objective", objective, *OPTIONS[objective],
            *reward, "--steps", STEPS, "--lr", 1e-2, "--threads", threads, "--save-every", 1, "--state",
            place / "state", "--adapter-out", place / "adapter", "--log", place / "run.jsonl"]  # fmt: skip


def left(folder: Path, name: str) -> tuple[bytes, dict[int, list]]:
    """The adapter, and what was written at each step; a step that was made twice has to have written the same."""
    written: dict[int, list] = {}
    file = folder / name / "written"
    for step, texts in map(json.loads, file.read_text().splitlines() if file.exists() else []):
        assert written.setdefault(step, texts) == texts, step
    return (folder / name / "adapter" / "adapter_model.safetensors").read_bytes(), written


def test_killed_runs_go_on_bitwise(bundle, folder, monkeypatch, show):
    monkeypatch.setenv("MEBP_CACHE", str(folder / "cache"))
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    expected, seconds = {}, {}
    for objective in OPTIONS:
        for threads in (1, 2):
            name = f"{objective}-whole-{threads}"
            run = mebp(*run_of(objective, bundle, folder, name, threads))
            assert run.returncode == 0, run.stderr
            expected.setdefault(objective, left(folder, name))
            assert left(folder, name) == expected[objective]
        log = (folder / f"{objective}-whole-1" / "run.jsonl").read_text().splitlines()
        seconds[objective] = max(json.loads(line)["seconds"] for line in log)
    assert len(expected["grpo"][1]) == STEPS // 2 and not expected["dpo"][1]
    for number in range(KILLS):
        objective = list(OPTIONS)[number % len(OPTIONS)]
        name, steps = f"{objective}-{number}", chance.randrange(STEPS)
        moment = chance.uniform(0, seconds[objective])
        print(f"{objective}: killed {moment:.4f} s after step {steps}")
        log = folder / name / "run.jsonl"
        started = run_of(objective, bundle, folder, name, 1)
        with running(*started, until=has_lines(log, steps)) as process:
            time.sleep(moment)
        assert process.returncode in (-9, 0)
        resumed = mebp(*run_of(objective, bundle, folder, name, 2), "--resume")
        assert resumed.returncode == 0, resumed.stderr
        assert left(folder, name) == expected[objective], (objective, number)
    show(f"{KILLS} runs of {', '.join(OPTIONS)}, killed at random moments: all resumed bitwise, at 1 and 2 threads")
