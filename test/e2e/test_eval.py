# SPDX-License-Identifier: Apache-2.0
"""`mebp eval`: the loss that it prints is the session's, weighted by tokens."""

import json
import math

import numpy as np

from mebp import Session
from mebp.data import load_dataset
from mebp.tokenizer import Tokenizer
from support.commands import mebp, refusal


def evaluate(*arguments: object) -> dict:
    run = mebp("eval", *arguments, "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_rows_count_by_their_tokens(bundle, data):
    found = evaluate(bundle, "--data", data)
    session = Session(bundle)
    rows = load_dataset(data, Tokenizer(bundle), session.max_sequence).rows
    assert len({len(row) for row in rows}) == 2, "the last row must be shorter, or the weights show nothing"
    losses = np.array([session.loss(row.ids[None], row.labels[None]) for row in rows])
    weights = np.array([len(row) - 1 for row in rows])
    assert found["tokens"] == weights.sum()
    assert math.isclose(found["loss"], (losses * weights).sum() / weights.sum(), rel_tol=1e-6)
    assert math.isclose(found["perplexity"], math.exp(found["loss"]), rel_tol=1e-9)


def test_an_adapter_lowers_it(bundle, data, tmp_path):
    adapter = tmp_path / "adapter"
    trained = mebp("train", bundle, "--data", data, "--epochs", 2, "--lr", 1e-2, "--adapter-out", adapter)
    assert trained.returncode == 0, trained.stderr
    before, after = evaluate(bundle, "--data", data), evaluate(bundle, "--data", data, "--adapter", adapter)
    assert after["loss"] < before["loss"]


def test_refusals(bundle, data, tmp_path):
    assert "none.txt" in refusal("eval", bundle, "--data", tmp_path / "none.txt")
    assert "no bundle at" in refusal("eval", tmp_path / "none.mebp", "--data", data)
    assert "adapter" in refusal("eval", bundle, "--data", data, "--adapter", tmp_path / "adapter")
