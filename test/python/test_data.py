# SPDX-License-Identifier: Apache-2.0
"""Packing, order and learning rates."""

from collections.abc import Sequence

import numpy as np
import pytest

from mebp.data import Dataset, Row, load_dataset
from mebp.errors import Error
from mebp.training.schedule import learning_rate, warmup_notes


class Bytes:
    """A tokenizer of bytes; 256 ends a text."""

    end_of_text = 256

    backend, before_text, unknown = None, (), None

    def encode_together(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(text.encode()) for text in texts]


def load(path, content: str, length: int) -> Dataset:
    path.write_text(content)
    return load_dataset(path, Bytes(), length)


def dataset(*rows: Sequence[int]) -> Dataset:
    arrays = [np.array(row, dtype=np.int32) for row in rows]
    return Dataset([Row(ids, ids) for ids in arrays], padding=99)


def test_documents_are_packed_with_an_end_between_them(tmp_path):
    data = load(tmp_path / "data.jsonl", '{"text": "abcd"}\n\n{"text": "efg"}\n', 3)
    tokens = [97, 98, 99, 100, 256, 101, 102, 103, 256]
    assert np.concatenate([row.ids for row in data.rows]).tolist() == tokens and [len(row) for row in data.rows] == [
        3,
        3,
        3,
    ]


def test_plain_text_is_one_document_and_a_lone_last_token_is_left_out(tmp_path):
    data = load(tmp_path / "data.txt", "abc\n\ndef", 4)
    assert [row.labels.tolist() for row in data.rows] == [[97, 98, 99, 10], [10, 100, 101, 102]]


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_every_epoch_sees_every_row_once_in_another_order(accumulate):
    data = dataset(*[[index, index] for index in range(7)])
    steps = data.steps_per_epoch(2 * accumulate)
    assert steps == {1: 4, 2: 2, 3: 2}[accumulate]
    orders = []
    for epoch in (0, 1):
        batches = [data.step_batches(steps * epoch + step, 2, accumulate, seed=5)[0] for step in range(steps)]
        assert all(len(batch) == accumulate and len(batch[0]) == 2 for batch in batches[:-1])
        orders.append([int(row[0]) for batch in batches for ids in batch for row in ids])
    assert all(sorted(order) == list(range(7)) for order in orders) and orders[0] != orders[1]


def test_accumulation_changes_no_order():
    data = dataset(*[[index, index] for index in range(7)])
    one, many = data.step_batches(0, 6, 1, seed=5)[0], data.step_batches(0, 2, 3, seed=5)[0]
    assert np.concatenate(many).tolist() == one[0].tolist()


def test_a_shorter_row_is_padded_and_its_padding_does_not_count():
    data = dataset([1, 2, 3], [4, 5])
    (ids,), (labels,), _ = data.step_batches(0, 2, 1, seed=0)
    short = ids[:, 0].tolist().index(4)
    assert ids[short].tolist() == [4, 5, 99] and labels[short].tolist() == [4, 5, -100]


def test_micro_batches_are_as_long_as_their_own_rows():
    data = dataset([1, 2, 3], [4, 5])
    ids, labels, _ = data.step_batches(0, 1, 2, seed=0)
    assert sorted(array.shape for array in ids) == sorted(array.shape for array in labels) == [(1, 2), (1, 3)]


def test_the_digest_is_of_what_is_learned():
    assert dataset([1, 2, 3], [4, 5]).digest == dataset([1, 2, 3], [4, 5]).digest
    assert dataset([1, 2, 3], [4, 5]).digest != dataset([1, 2], [3, 4, 5]).digest
    ids = np.array([1, 2, 3], dtype=np.int32)
    masked = Dataset([Row(ids, np.array([-100, 2, 3], dtype=np.int32))], padding=99)
    assert masked.digest != dataset([1, 2, 3]).digest


def test_a_single_token_is_refused(tmp_path):
    with pytest.raises(Error, match="data.jsonl: has too little text"):
        load(tmp_path / "data.jsonl", '{"text": ""}\n{"text": ""}\n', 4)


def test_learning_rates():
    rates = [learning_rate(step, 10, 1.0, "linear", 2) for step in range(10)]
    assert rates[0] < rates[1] < rates[2] == 1.0 and rates[2:] == sorted(rates[2:], reverse=True) and rates[-1] > 0
    assert [learning_rate(step, 4, 0.5, "constant", 0) for step in range(4)] == [0.5] * 4
    assert learning_rate(5, 10, 1.0, "cosine", 0) == pytest.approx(0.5)


def test_a_warmup_that_lasts_as_long_as_the_run_is_said():
    assert warmup_notes(10, 2e-4, 9) == []
    assert warmup_notes(10, 2e-4, 10) == [
        "--warmup 10: the run has 10 steps, so the learning rate never reaches 0.0002"
    ]
