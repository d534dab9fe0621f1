# SPDX-License-Identifier: Apache-2.0
"""bench/generation.py memory: what a token reads, and the row of a table."""

import pytest
from parts import decoding_rate

from mebp.inspect import inspect
from support.textmodel import make_text_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_text_bundle(tmp_path_factory.mktemp("decoding"), generate_len=96)


def test_a_token_reads_the_layers_weights_once(bundle):
    weights = inspect(bundle)["weights"]
    layers = sum(weight["bytes"] for weight in weights if "embed" not in weight["name"])
    whole = inspect(bundle)["weights_bytes"]
    moved = decoding_rate.bytes_of_token(bundle)
    assert layers <= moved <= 3 * whole  # with a token's own values, which are small beside a real model's weights


def test_a_row_has_what_its_header_says(bundle, monkeypatch):
    monkeypatch.setattr(decoding_rate, "find_bench", lambda name: name)
    monkeypatch.setattr(decoding_rate, "run_bench", lambda command: f"read|{command[1]}|20.0\n")
    row = decoding_rate.measure_decoding(bundle, 2, rounds=1)
    assert len(row) == decoding_rate.HEADER[0].count("|") - 1
    assert row[2] == "2" and row[6] == "20.0"
    assert float(row[3]) > 0 and float(row[5]) == pytest.approx(float(row[3]) * float(row[4]) / 1e3, abs=0.2)
