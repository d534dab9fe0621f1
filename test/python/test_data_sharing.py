# SPDX-License-Identifier: Apache-2.0
"""Samples that share rows: none is lost, none is cut, and where each begins is known."""

import json
from collections.abc import Sequence

import numpy as np
import pytest

from mebp import Error
from mebp.data import Dataset, Row, load_dataset
from mebp.data.loading import has_samples
from mebp.data.sharing import Sharing, share_rows
from mebp.data.store import About, Spans, TokenWriter

LENGTH = 50


class Bytes:
    """A tokenizer of bytes; 256 ends a text, and what is said."""

    end_of_text = end_of_sequence = 256
    stop_tokens = (256,)

    backend, before_text, unknown, threads = None, (), None, 1

    def encode_together(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(text.encode()) for text in texts]


def samples(count: int, longest: int = LENGTH, seed: int = 0) -> list[Row]:
    """Each of numbers of its own, the first ones without a label."""
    generator = np.random.default_rng(seed)
    rows = []
    for index in range(count):
        ids = (1000 * index + np.arange(generator.integers(2, longest + 1))).astype(np.int32)
        rows.append(Row(ids, np.where(ids % 1000 < generator.integers(0, len(ids)), -100, ids)))
    return rows


def mapped(given: Sequence[Row]) -> Spans:
    """The same samples as parts of tokens one after the other."""
    writer = TokenWriter()
    for row in given:
        writer.add(row.ids, row.labels != -100)
    tokens = writer.tokens(About("completion"))
    return Spans(tokens, tokens.bounds[:-1], tokens.bounds[1:])


@pytest.mark.parametrize("count, longest", [(1, 50), (40, 50), (300, 9), (25, 2)])
@pytest.mark.parametrize("form", [list, mapped])
def test_each_sample_is_whole_in_one_row(monkeypatch, form, count, longest):
    monkeypatch.setattr("mebp.data.sharing._TOGETHER", 4)
    given = samples(count, longest)
    rows = share_rows(form(given), LENGTH, seed=3)
    found = {}
    for index, row in enumerate(rows):
        assert all(
            np.array_equal(getattr(row, name), getattr(rows[index], name)) for name in ("ids", "labels", "starts")
        )
        assert len(row) == len(row.labels) == len(row.starts) <= LENGTH
        for start in np.unique(row.starts):
            own = np.flatnonzero(row.starts == start)
            assert own[0] == start and np.array_equal(own, np.arange(start, start + len(own)))
            assert row.labels[start] == -100  # nothing predicts it
            found[int(row.ids[start])] = row.ids[own], row.labels[own]
    assert len(found) == count
    for sample in given:
        ids, labels = found[int(sample.ids[0])]
        assert np.array_equal(ids, sample.ids) and np.array_equal(labels[1:], sample.labels[1:])
    assert sum(row.counted for row in rows) == sum(row.counted for row in given)
    # No two rows could have been one.
    lengths = sorted(len(row) for row in rows)
    assert len(lengths) < 2 or lengths[0] + lengths[1] > LENGTH or longest > LENGTH // 2


def test_the_seed_says_which_share():
    given = samples(60, 20)

    def ids(seed: int) -> list[list[int]]:
        return [row.ids.tolist() for row in share_rows(given, LENGTH, seed)]

    assert ids(1) == ids(1) != ids(2)


def test_padding_is_a_sample_of_its_own():
    rows = [Row(np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32), np.array(starts, dtype=np.int32))
            for n, starts in ((3, [0, 0, 2]), (5, [0, 1, 1, 1, 4]))]  # fmt: skip
    ids, labels, starts = Dataset(rows, padding=9, samples=5).padded([0, 1])
    assert starts.tolist() == [[0, 0, 2, 3, 3], [0, 1, 1, 1, 4]]
    assert ids[0].tolist() == [0, 1, 2, 9, 9] and labels[0].tolist() == [0, 1, 2, -100, -100]
    batches = Dataset(rows, padding=9, samples=5).step_batches(0, 1, 2, seed=0)
    assert [len(each) for each in batches] == [2, 2, 2]
    assert Dataset(rows, padding=9).padded([0, 1])[2] is None


def test_a_file_of_completions(tmp_path):
    data = tmp_path / "data.jsonl"
    lines = [{"prompt": "a" * n, "completion": "b" * n} for n in range(1, 15)]
    data.write_text("\n".join(map(json.dumps, lines)))
    shared, alone = load_dataset(data, Bytes(), LENGTH, Sharing()), load_dataset(data, Bytes(), LENGTH)
    assert shared.samples == 14 > len(shared.rows) and alone.samples is None
    assert (shared.tokens, shared.counted) == (alone.tokens, alone.counted)
    assert shared.digest != alone.digest and has_samples(data)
    cut = load_dataset(data, Bytes(), 20, Sharing())
    assert len(cut.notes) == 1 and max(map(len, cut.rows)) <= 20
    with pytest.raises(Error, match="data.jsonl: sample 10 has 21 tokens, and a row 20; shorten it, compile with a "):
        load_dataset(data, Bytes(), 20, Sharing(may_cut=False))


def test_text_is_cut_and_not_shared(tmp_path):
    data = tmp_path / "data.txt"
    data.write_text("The lamp is lit. " * 20)
    assert not has_samples(data)
    assert load_dataset(data, Bytes(), 32, Sharing()).samples is None
