# SPDX-License-Identifier: Apache-2.0
"""Runs of preferences and rewards that are killed with -9 at random moments go on with the same bits and rollouts,
whatever the number of threads. A run of each objective is killed once, in `make soak` (MEBP_SOAK) ten times."""

import json
import random
import time
from pathlib import Path

import pytest

from mebp.objective_traits import objectives
from support import models
from support.commands import has_lines, mebp, running
from support.pipeline import make_bundle
from support.soak import SOAK
from support.textmodel import make_tokenizer

KILLS = 10 if SOAK else 1
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
    "ppo": ["--value-model", "own", "--max-completion", ROOM, "--num-ppo-epochs", 2, "--accumulate", 4],
    "orpo": ["--accumulate", 2],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("objective-kills")
    models.save(models.build("llama", num_hidden_layers=2), folder / "source")
    make_tokenizer(folder / "source")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
    prompts = "".join(json.dumps({"prompt": pair["prompt"]}) + "\n" for pair in PAIRS)
    (folder / "prompts.jsonl").write_text(prompts)
    return folder


@pytest.fixture(scope="module")
def bundle(folder) -> Path:
    return make_bundle(folder / "source", folder, seq_len=LENGTH, generate_len=LENGTH, value_head=True)


def run_of(objective: str, bundle: Path, folder: Path, name: str, threads: int) -> list[object]:
    place = folder / name
    place.mkdir(exist_ok=True)
    (place / "reward.py").write_text(REWARD)
    traits = objectives()[objective]
    data = ["--data", folder / f"{traits.form}.jsonl"]
    reward = ["--reward", f"{place / 'reward.py'}:high"] if traits.writes else []
    return ["train", bundle, "--objective", objective, *OPTIONS[objective], *data, *reward, "--steps", STEPS,
            "--lr", 1e-2, "--threads", threads, "--save-every", 1, "--state",
            place / "state", "--adapter-out", place / "adapter", "--log", place / "run.jsonl"]  # fmt: skip


def left(folder: Path, name: str) -> tuple[dict[str, bytes], dict[int, list]]:
    """Adapters and value head, and what was written at each step; a step that was made twice has to have written the
    same."""
    written: dict[int, list] = {}
    file = folder / name / "written"
    for step, texts in map(json.loads, file.read_text().splitlines() if file.exists() else []):
        assert written.setdefault(step, texts) == texts, step
    return {file.name: file.read_bytes() for file in (folder / name / "adapter").glob("*.safetensors")}, written


@pytest.mark.parametrize("objective", OPTIONS)
def test_killed_runs_go_on_bitwise(bundle, folder, monkeypatch, show, objective):
    monkeypatch.setenv("MEBP_CACHE", str(folder / "cache"))
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    whole = [f"{objective}-whole-{threads}" for threads in (1, 2)]
    for threads, name in enumerate(whole, start=1):
        run = mebp(*run_of(objective, bundle, folder, name, threads))
        assert run.returncode == 0, run.stderr
    expected = left(folder, whole[0])
    assert left(folder, whole[1]) == expected
    assert len(expected[0]) == (3 if "--value-model" in OPTIONS[objective] else 2)
    assert len(expected[1]) == (STEPS // 2 if objectives()[objective].writes else 0)
    log = (folder / whole[0] / "run.jsonl").read_text().splitlines()
    longest = max(json.loads(line)["seconds"] for line in log)
    for number in range(KILLS):
        name, steps = f"{objective}-{number}", chance.randrange(STEPS)
        threads, moment = 1 + number % 2, chance.uniform(0, longest)
        print(f"{objective}: killed {moment:.4f} s after step {steps}, on {threads} threads")
        started = run_of(objective, bundle, folder, name, threads)
        with running(*started, until=has_lines(folder / name / "run.jsonl", steps)) as process:
            time.sleep(moment)
        assert process.returncode in (-9, 0)
        resumed = mebp(*run_of(objective, bundle, folder, name, 3 - threads), "--resume")
        assert resumed.returncode == 0, resumed.stderr
        assert left(folder, name) == expected, (objective, number)
    show(f"{objective} killed {KILLS} times at random moments: resumed bitwise, at 1 and 2 threads")
