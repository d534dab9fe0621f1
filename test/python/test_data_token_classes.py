# SPDX-License-Identifier: Apache-2.0
"""Words with a class each: which of their tokens has it, what is cut, and what is refused."""

import json

import pytest

from mebp import Error
from mebp.data.token_classes import load_tagged, read_tagged
from mebp.tokenizer import Tokenizer
from support.textmodel import make_tokenizer


class Letters:
    """A token a letter, between 1 and 2."""

    padding, unknown = 0, None

    def encode_words(self, words, at_most=None):
        letters = [(ord(letter), index) for index, word in enumerate(words) for letter in word]
        if at_most is not None:
            letters = letters[: at_most - 2]
        ids, of = zip(*letters, strict=True)
        return [1, *ids, 2], [None, *of, None]


def write(path, *samples):
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


def test_a_word_has_its_class_at_its_first_token(tmp_path):
    path = write(tmp_path / "data.jsonl", {"tokens": ["ab", "c", "def"], "labels": ["boat", -100, 0]})
    data = load_tagged(path, Letters(), 20, ["fish", "boat"])
    (row,) = data.rows
    assert row.labels.tolist() == [-100, 1, -100, -100, 0, -100, -100, -100]
    assert row.counted == data.counted == 2 and row.shift == 0 and data.samples == 1


def test_words_have_the_tokens_of_their_text(tmp_path):
    make_tokenizer(tmp_path / "tokenizer", merges=[("\u0120", "t")])
    tokenizer, words = Tokenizer(tmp_path), ["at", "the", "to"]
    ids, of = tokenizer.encode_words(words)
    assert ids == tokenizer.encode("at the to") and len(ids) == 7
    assert of == [0, 0, 1, 1, 1, 2, 2]
    assert tokenizer.encode_words(words, 3) == (ids[:3], of[:3])


def test_what_is_cut_is_said(tmp_path):
    path = write(
        tmp_path / "data.jsonl",
        {"tokens": ["abcdefgh", "i"], "labels": [-100, 1]},
        {"tokens": ["abcdefgh", "i"], "labels": [0, 1]},
    )
    data = load_tagged(path, Letters(), 8, ["fish", "boat"])
    assert len(data.rows) == 1 and data.counted == 1
    assert data.notes[0].endswith("2 of 2 samples were cut to 8 tokens")
    assert data.notes[1].endswith("1 of 2 samples had no label that counts within 8 tokens and were left out")
    with pytest.raises(Error, match="no sample has a label that counts within 8 tokens"):
        load_tagged(write(path, {"tokens": ["abcdefgh", "i"], "labels": [-100, 1]}), Letters(), 8, ["fish", "boat"])


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ({"tokens": ["a"]}, r':1: has no "labels"; give \{"tokens": \[words\]'),
        ({"tokens": "a b", "labels": [0, 1]}, ':1: "tokens" is a string; give'),
        ({"tokens": ["a", 3], "labels": [0, 1]}, ':1: one of "tokens" is a number; give'),
        ({"tokens": ["a", "b"], "labels": [0]}, ":1: has 2 tokens and 1 labels; give a label for each"),
        ({"tokens": ["a"], "labels": [-100]}, ":1: has no label that counts; leave it out"),
        ({"tokens": ["a"], "labels": [True]}, ':1: "labels" is a truth value; give the name of a class or its number'),
    ],
)
def test_data_that_is_refused(tmp_path, sample, expected):
    with pytest.raises(Error, match=expected):
        read_tagged(write(tmp_path / "data.jsonl", sample))


def test_a_label_beyond_the_classes_is_refused(tmp_path):
    path = write(tmp_path / "data.jsonl", {"tokens": ["a", "b"], "labels": ["boat", "net"]})
    with pytest.raises(Error, match=r"its label is 'net'; the classes are fish \(0\), boat \(1\)"):
        load_tagged(path, Letters(), 20, ["fish", "boat"])
