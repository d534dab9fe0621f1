# SPDX-License-Identifier: Apache-2.0
"""Samples that are held out: how many, which, and the same ones of a file as of what is kept of a large one."""

import json
from pathlib import Path

import numpy as np
import pytest

from mebp.data import Dataset, Row
from mebp.data.holding_out import HoldOut, Part
from mebp.data.loading import load_parts, split_datasets
from mebp.data.sharing import Sharing
from mebp.data.sources import Source, read_sources
from mebp.tokenizer import Tokenizer
from support.textmodel import make_tokenizer

LENGTH = 48


def row(*ids: int) -> Row:
    array = np.array(ids, np.int32)
    return Row(array, array)


def contents(data: Dataset) -> list[tuple[int, ...]]:
    return sorted(tuple(each.ids.tolist()) for each in data.rows)


@pytest.mark.parametrize(
    ("hold_out", "sizes", "counts"),
    [
        (HoldOut(0.05, 0, 40), [39], [0]),
        (HoldOut(0.05, 0, 40), [40], [8]),
        (HoldOut(0.05, 0, 40), [150], [8]),
        (HoldOut(0.05, 0, 40), [1000], [50]),
        (HoldOut(0.05, 0, 40), [20, 20], [4, 4]),
        (HoldOut(0.05, 0, 40), [1000, 3000], [50, 150]),
        (HoldOut(0.05, 0, 40), [1, 500], [0, 25]),
        (HoldOut(0.05, 0), [20], [1]),  # who asks for it has it
        (HoldOut(0.5, 0), [20], [10]),
        (HoldOut(0.99, 0), [2], [1]),
        (HoldOut(0.5, 0), [1], [0]),
    ],
)
def test_how_many(hold_out, sizes, counts):
    assert hold_out.counts(sizes) == counts


def test_which_depends_on_seed_and_content_alone():
    rows = [row(index, 7) for index in range(100)]
    held = set(np.flatnonzero(Part(8, 3, True).of(rows)))
    assert len(held) == 8
    backwards = {99 - index for index in np.flatnonzero(Part(8, 3, True).of(rows[::-1]))}
    assert backwards == held
    others = set(np.flatnonzero(Part(8, 3, False).of(rows)))
    assert others == set(range(100)) - held
    assert set(np.flatnonzero(Part(8, 4, True).of(rows))) != held
    more = [*rows, row(1000, 7)]  # one more sample takes the place of one at most
    assert len(set(np.flatnonzero(Part(8, 3, True).of(more))) & held) >= 7


def test_what_is_alike_stays_together():
    rows = [row(index // 2, 7) for index in range(100)]
    held = Part(8, 0, True).of(rows)
    assert held.sum() == 8 and (held[::2] == held[1::2]).all()
    assert not Part(8, 0, True).of([row(1, 2)] * 50).any()
    labelled = [Row(row(1, 2).ids, np.array([-100, index], np.int32)) for index in range(50)]
    assert Part(8, 0, True).of(labelled).sum() == 8  # with other labels they are not


@pytest.fixture
def tokenizer(tmp_path) -> Tokenizer:
    make_tokenizer(tmp_path / "tokenizer")
    return Tokenizer(tmp_path)


def write(path: Path, samples: list[dict]) -> Path:
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


COMPLETIONS = [{"prompt": f"Lamp {index}:", "completion": " lit" * (index % 3 + 1)} for index in range(60)]
TEXTS = [{"text": f"Lamp {index} is lit, and so is lamp {index + 1} beside it."} for index in range(60)]


@pytest.mark.parametrize("sharing", [None, Sharing(0)], ids=["alone", "shared"])
@pytest.mark.parametrize("samples", [COMPLETIONS, TEXTS], ids=["completions", "texts"])
def test_a_large_file_is_split_as_a_small_one(tokenizer, tmp_path, monkeypatch, samples, sharing):
    sources = read_sources(write(tmp_path / "data.jsonl", samples))
    small = load_parts(sources, tokenizer, LENGTH, sharing, HoldOut(0.05, 1, 40))
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mebp.data.keeping._KEPT", 0)
    for _ in range(2):  # made, and from the cache
        large = load_parts(sources, tokenizer, LENGTH, sharing, HoldOut(0.05, 1, 40))
        for one, other in zip(small, large, strict=True):
            assert contents(one) == contents(other) and one.digest == other.digest and one.samples == other.samples
    other = load_parts(sources, tokenizer, LENGTH, sharing, HoldOut(0.05, 2, 40))
    assert other[0].digest != small[0].digest
    whole, nothing = load_parts(sources, tokenizer, LENGTH, sharing, HoldOut(0.05, 1, 1000))
    assert nothing is None and whole.counted == small[0].counted + small[1].counted


def test_no_sample_is_on_both_sides(tokenizer, tmp_path):
    one, other = (write(tmp_path / f"{name}.jsonl", samples) for name, samples in
                  (("a", COMPLETIONS[:30]), ("b", COMPLETIONS[30:])))  # fmt: skip
    trained, held = load_parts([Source.of(one), Source.of(other)], tokenizer, LENGTH, None, HoldOut(0.05, 1, 40))
    assert len(held.rows) == 8 and len(trained.rows) == 52 and trained.mix.rows == (26, 26)
    assert not set(contents(trained)) & set(contents(held))
    assert not any("left out" in note for note in trained.notes)


def test_rows_that_are_samples():
    data = Dataset([row(index, 7) for index in range(50)], 0, ("a note",), 50)
    (trained,), held = split_datasets([data], HoldOut(0.05, 0, 40))
    assert trained.samples == len(trained.rows) == 42 and held.samples == len(held.rows) == 8
    assert sorted(contents(trained) + contents(held)) == contents(data) and trained.notes == ("a note",)
    (same,), nothing = split_datasets([data], HoldOut(0.05, 0, 51))
    assert same is data and nothing is None
