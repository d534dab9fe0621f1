# SPDX-License-Identifier: Apache-2.0
"""`mebp train` on samples that share rows: the tokens of samples one by one, in fewer rows."""

import json
from pathlib import Path

import pytest

from mebp.data import load_dataset
from mebp.tokenizer import Tokenizer
from support.commands import mebp, refusal
from support.textmodel import make_text_bundle

LENGTH = 64


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Path:
    return make_text_bundle(tmp_path_factory.mktemp("shared"), seq_len=LENGTH, packing=True)


def completions(path: Path, *lengths: int) -> Path:
    """Samples of so many tokens each, of which a byte is one, and the end another."""
    samples = [{"prompt": f"{index:02}", "completion": "b" * (length - 3)} for index, length in enumerate(lengths)]
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


@pytest.fixture
def samples(tmp_path) -> Path:
    return completions(tmp_path / "data.jsonl", *[5, 9, 14, 30, 21] * 6)


def weights(folder: Path) -> bytes:
    return (folder / "adapter_model.safetensors").read_bytes()


def test_a_run_costs_tokens_and_resumes_bitwise(shared, samples, tmp_path):
    common = ["train", shared, "--data", samples, "--lr", 1e-2, "--seed", 3, "--accumulate", 2]
    log = tmp_path / "run.jsonl"
    whole = mebp(*common, "--epochs", 2, "--adapter-out", tmp_path / "whole", "--log", log)
    assert whole.returncode == 0, whole.stderr
    assert "30 samples in 8 rows of up to 64" in whole.stdout or "30 samples in 9 rows of up to 64" in whole.stdout
    records = [json.loads(line) for line in log.read_text().splitlines()]
    alone = load_dataset(samples, Tokenizer(shared), LENGTH)
    assert len(records) == 2 * (3 if "in 9 rows" in whole.stdout else 2)
    assert sum(record["tokens"] for record in records) == 2 * alone.counted
    halves = [*common, "--adapter-out", tmp_path / "halves", "--state", tmp_path / "state"]
    assert mebp(*halves, "--steps", 2).returncode == 0
    assert "--packing on, not None" in refusal(*halves, "--steps", len(records), "--resume", "--no-packing")
    assert mebp(*halves, "--steps", len(records), "--resume").returncode == 0
    assert weights(tmp_path / "halves") == weights(tmp_path / "whole")
    apart = mebp(*common, "--steps", 1, "--no-packing")
    assert apart.returncode == 0 and "in 30 rows of up to 64" in apart.stdout, apart.stderr


def test_an_evaluation_has_the_loss_of_rows_apart(shared, samples, tmp_path):
    plain = make_text_bundle(tmp_path, seq_len=LENGTH)
    found = []
    for bundle in (shared, plain):
        run = mebp("eval", bundle, "--data", samples, "--json")
        assert run.returncode == 0, run.stderr
        found.append(json.loads(run.stdout))
    assert found[0]["tokens"] == found[1]["tokens"]
    assert found[0]["loss"] == pytest.approx(found[1]["loss"], rel=1e-5)


@pytest.mark.parametrize("option", ["--packing", "--no-packing"])
def test_text_fills_rows_in_any_case(bundle, data, option):
    run = mebp("train", bundle, "--data", data, "--steps", 1, option)
    assert run.returncode == 0 and f"{data}: text fills whole rows in any case" in run.stdout, run.stderr


def test_refusals(shared, samples, bundle, tmp_path):
    assert f"which {bundle} was compiled without; compile it with --packing" in refusal(
        "train", bundle, "--data", samples, "--packing"
    )
    long = completions(tmp_path / "long.jsonl", 9, 70, 9)
    line = refusal("train", shared, "--data", long, "--packing")
    assert f"{long}: sample 2 has 70 tokens, and a row 64; shorten it" in line
    cut = mebp("train", shared, "--data", long, "--steps", 1)
    assert cut.returncode == 0 and "1 of 3 samples were cut to 64 tokens" in cut.stdout, cut.stderr
    assert "--packing puts samples side by side" in refusal(
        "train", shared, "--data", samples, "--packing", "--objective", "dpo"
    )
