# SPDX-License-Identifier: Apache-2.0
"""Masked text: which tokens are masked and what they become, by a seed and a step alone, and what is refused."""

import json

import numpy as np
import pytest

from mebp import Error
from mebp.data.masking import Masking, load_masked, load_measured
from mebp.data.sharing import Sharing

LENGTH, MASK, CLS, SEP, UNKNOWN = 50, 99, 90, 91, 92


class Words:
    """A tokenizer of numbers below 90; 92 is what it does not know."""

    end_of_text, padding, mask, size = SEP, 93, MASK, 100
    before_text, after_text = [CLS], [SEP]
    special_tokens = frozenset(range(90, 100))
    backend, unknown = None, UNKNOWN

    def encode_together(self, texts: list[str]) -> list[list[int]]:
        return [[int(word) if int(word) < 90 else UNKNOWN for word in text.split()] for text in texts]


def write(path, *lengths, seed=0):
    generator = np.random.default_rng(seed)
    texts = [" ".join(map(str, generator.integers(0, 95, length))) for length in lengths]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return texts


def test_tokens_become_what_bert_makes_of_them(tmp_path):
    write(tmp_path / "data.jsonl", 40_000)
    masking = Masking.of(Words(), 200, 0.15)
    data = load_masked(tmp_path / "data.jsonl", Words(), LENGTH, masking, None)
    whole = data.whole.rows
    assert all(len(row) <= LENGTH and row.ids[0] == CLS and row.ids[-1] == SEP for row in whole)
    masked = [masking.apply(row, (0, index)) for index, row in enumerate(whole)]
    before, after, labels = (
        np.concatenate([getattr(row, name) for row in rows])
        for rows, name in ((whole, "ids"), (masked, "ids"), (masked, "labels"))
    )
    chosen = labels != -100
    assert np.array_equal(labels[chosen], before[chosen]) and np.array_equal(before[~chosen], after[~chosen])
    assert not np.isin(before[chosen], list(Words.special_tokens)).any()
    count, candidates = np.count_nonzero(chosen), np.count_nonzero(before < 90)
    as_mask = np.count_nonzero(after[chosen] == MASK)
    others = after[chosen & (after != before) & (after != MASK)]
    # Four standard deviations of a binomial distribution.
    for found, of, share in [(count, candidates, 0.15), (as_mask, count, 0.8), (len(others), count, 0.1 * 89 / 90)]:
        assert abs(found - share * of) < 4 * np.sqrt(share * (1 - share) * of)
    assert set(others) == set(range(90))  # any but special ones


def test_every_row_has_something_to_predict(tmp_path):
    write(tmp_path / "data.jsonl", *[2] * 50)
    masking = Masking.of(Words(), 100, 1e-9)
    data = load_masked(tmp_path / "data.jsonl", Words(), LENGTH, masking, None)
    assert len(data.whole.rows) > 40
    assert all(masking.apply(row, (0, index)).counted == 1 for index, row in enumerate(data.whole.rows))


@pytest.mark.parametrize("sharing", [None, Sharing(3)], ids=["alone", "shared"])
def test_samples_lose_no_token(tmp_path, sharing):
    texts = write(tmp_path / "data.jsonl", 7, 120, 1, 48, 49, 3)
    data = load_masked(tmp_path / "data.jsonl", Words(), LENGTH, Masking.of(Words(), 100), sharing)
    found = []
    for row in data.whole.rows:
        assert len(row) <= LENGTH and row.shift == 0
        for start in np.unique(row.starts):
            ids = row.ids[row.starts == start]
            assert ids[0] == CLS and ids[-1] == SEP
            found += ids[1:-1].tolist()
    assert sorted(found) == sorted(token for ids in Words().encode_together(texts) for token in ids)
    assert data.whole.samples == 9 and (len(data.whole.rows) < 9) == bool(sharing)


def test_masks_depend_on_the_seed_the_epoch_and_the_row_alone(tmp_path):
    write(tmp_path / "data.jsonl", *[30] * 8)
    data = load_masked(tmp_path / "data.jsonl", Words(), LENGTH, Masking.of(Words(), 100), None)

    def rows(steps, batch, accumulate, seed):
        taken = [data.step_batches(step, batch, accumulate, seed) for step in steps]
        return sorted(row.tobytes() for ids, labels, _ in taken for row in np.concatenate(ids + labels, axis=0))

    assert rows(range(4), 2, 1, 5) == rows(range(2), 2, 2, 5) == rows([0], 8, 1, 5)
    assert rows(range(4), 2, 1, 5) != rows(range(4), 2, 1, 6)
    assert rows(range(4), 2, 1, 5) != rows(range(4, 8), 2, 1, 5)  # another epoch


def test_what_is_measured_is_the_same_each_time(tmp_path):
    write(tmp_path / "data.jsonl", *[30] * 8)
    one, other = (load_measured(tmp_path / "data.jsonl", Words(), LENGTH, 100) for _ in range(2))
    assert one.digest == other.digest and one.counted > 8


def test_padding_is_a_sample_of_its_own(tmp_path):
    write(tmp_path / "data.jsonl", 10, 20)
    data = load_masked(tmp_path / "data.jsonl", Words(), LENGTH, Masking.of(Words(), 100), None)
    ids, labels, starts = (each[0] for each in data.step_batches(0, 2, 1, 0))
    short = int(np.argmin((ids != Words.padding).sum(axis=1)))
    assert (ids[short, 12:] == Words.padding).all() and (labels[short, 12:] == -100).all()
    assert (starts[short, :12] == 0).all() and (starts[short, 12:] == 12).all()


def test_no_room_between_special_tokens(tmp_path):
    write(tmp_path / "data.jsonl", 10)
    with pytest.raises(Error, match="has no token to predict within 2 tokens; give it some text"):
        load_masked(tmp_path / "data.jsonl", Words(), 2, Masking.of(Words(), 100), None)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"prompt": "1", "completion": "2"}, "has prompts or conversations; --task fill-mask takes plain text"),
        ({"text": "94 95"}, "has no token to predict within 50 tokens; give it some text"),
    ],
)
def test_data_that_is_refused(tmp_path, line, expected):
    (tmp_path / "data.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(Error, match=expected):
        load_masked(tmp_path / "data.jsonl", Words(), LENGTH, Masking.of(Words(), 100), None)
