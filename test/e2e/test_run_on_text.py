# SPDX-License-Identifier: Apache-2.0
"""mebp-run --data: text to an adapter without Python, with the bits of `mebp train`."""

import json
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mebp.tools import find_tool
from support.commands import TIMEOUT, mebp

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*arguments: object, status: int = 0) -> str:
    """What mebp-run prints; of a refusal, what it says."""
    command = [find_tool("mebp-run"), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert ended.returncode == status, ended.stderr
    return ended.stderr if status else ended.stdout


def texts(chance: random.Random) -> dict:
    return {"text": "The lamp is lit at dusk. " * chance.randint(1, 9)}


def completions(chance: random.Random) -> dict:
    return {"prompt": f"Lamp {chance.randint(0, 99)}: ", "completion": "lit" + "!" * chance.randint(0, 30)}


def train_both(bundle: Path, data: Path, folder: Path, options: Sequence[str] = ()) -> None:
    """Trains with either; losses and adapters have to be the same."""
    common = (bundle, "--data", data, "--steps", 3, "--lr", "1e-3", *options)
    trained = mebp("train", *common, "--adapter-out", folder / "python", "--log", folder / "log.jsonl")
    assert trained.returncode == 0, trained.stderr
    said = run(*common, "--adapter-out", folder / "runtime", "--json")
    expected = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    losses = [f"{record['loss']:.9g}" for record in expected if "loss" in record]
    found = [json.loads(line) for line in said.splitlines()]
    assert [f"{record['loss']:.9g}" for record in found if "loss" in record] == losses
    assert len(losses) == 3
    adapters = [(folder / name / "adapter_model.safetensors").read_bytes() for name in ("python", "runtime")]
    assert adapters[0] == adapters[1]


@pytest.mark.parametrize("make", [texts, completions])
def test_a_small_model_on_text(bundle: Path, make: Callable, tmp_path: Path) -> None:
    chance, data = random.Random(1), tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(make(chance)) + "\n" for _ in range(5)))
    train_both(bundle, data, tmp_path)


@pytest.mark.parametrize("options", [(), ("--loss-on", "last")])
def test_smollm2_on_conversations(smollm2, options: Sequence[str], tmp_path: Path) -> None:
    train_both(smollm2.bundle, EXAMPLES / "brindle_rock.jsonl", tmp_path, options)


def test_a_run_goes_on(bundle: Path, tmp_path: Path) -> None:
    """Over more than one epoch, and not with other text."""
    chance, data = random.Random(2), tmp_path / "data.jsonl"
    lines = [json.dumps(completions(chance)) + "\n" for _ in range(5)]
    data.write_text("".join(lines))
    state, whole, parts = (tmp_path / name for name in ("state", "whole", "parts"))
    common = (bundle, "--data", data, "--lr", "1e-3")
    run(*common, "--steps", 7, "--adapter-out", whole)
    run(*common, "--steps", 4, "--state", state)
    run(*common, "--steps", 7, "--state", state, "--resume", "--adapter-out", parts)
    assert (whole / "adapter_model.safetensors").read_bytes() == (parts / "adapter_model.safetensors").read_bytes()
    data.write_text("".join(reversed(lines)))
    refused = run(*common, "--steps", 9, "--state", state, "--resume", status=2)
    assert "was saved from other rows; continue with the same --data and --sequence" in refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is nothing to train on; give --tokens or --data"),
        (("--data", "a.jsonl", "--tokens", "b.bin"), "--tokens excludes --data"),
        (("--tokens", "b.bin", "--loss-on", "all"), "--loss-on requires --data"),
        (("--data", "absent.jsonl"), "absent.jsonl: "),
        (("--data", "other.jsonl"), 'other.jsonl:2: has "prompt"'),
        (("--data", "other.jsonl", "--sequence", "4096"), "--sequence 4096: the bundle was compiled for at most"),
    ],
)
def test_what_is_refused_is_named(bundle: Path, arguments: Sequence[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text('{"text": "The lamp is lit."}\n{"prompt": "a", "chosen": "b"}\n')
    files = [tmp_path / each if each.endswith((".jsonl", ".bin")) else each for each in arguments]
    said = run(bundle, *files, status=2)
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("tokenizer", "bare.mebp/tokenizer: has no tokenizer.json; export the model from a folder that has its"),
        ("chat.json", 'chat.jsonl:1: has "messages", and there is no chat template for them; give "prompt" and'),
    ],
)
def test_what_a_bundle_lacks_is_named(bundle: Path, missing: str, message: str, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "bare.mebp", ignore=shutil.ignore_patterns(missing))
    turns = [{"role": "user", "content": "Is it lit?"}, {"role": "assistant", "content": "It is."}]
    (tmp_path / "chat.jsonl").write_text(json.dumps({"messages": turns}) + "\n")
    assert message in run(tmp_path / "bare.mebp", "--data", tmp_path / "chat.jsonl", status=2)
