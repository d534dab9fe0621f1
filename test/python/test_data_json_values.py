# SPDX-License-Identifier: Apache-2.0
"""Values of JSON that nobody expects, in every place of every form of data: read, or refused in one line."""

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mebp.data.classes import choose_classes, load_classified, read_classified
from mebp.data.preferences import load_preferences
from mebp.data.prompts import load_prompts
from mebp.data.reading import read_samples
from mebp.data.rollouts import load_rollouts
from mebp.data.token_classes import load_tagged, read_tagged
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from support.textmodel import make_tokenizer

LENGTH = 1000
ODD = [
    "1180591620717411303424",
    "-1180591620717411303424",
    "1e999",
    "-1e300",
    "9" * 400,
    "9" * 4300,
    "9" * 5000,
    "NaN",
    "1000000000",
    "0.5",
    "[" * 99 + "]" * 99,
    "[" * 960 + "]" * 960,
    '{"a":' * 960 + "1" + "}" * 960,
    '"\\ud800"',
    '{"\\udc00": 1}',
    '"\\u0000\\u001b[31m"',
    "null",
    "true",
    "{}",
    "[]",
]
PLACE = "here"
TURNS = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": [{"type": "text", "text": "I."}]}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]
KNOWN = {"ids": [1, 2], "logps": [-1.0, None], "mask": [1, 0], "reward": 1.0, "advantage": 0.5}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    make_tokenizer(folder / "tokenizer")
    return Tokenizer(folder)


def samples(path, tokenizer):
    """Without their tokens, which are kept in a cache: that takes longer than all else here."""
    read_samples(path)


def classified(path, tokenizer):
    return load_classified(path, tokenizer, LENGTH, choose_classes([each.label for each in read_classified(path)], {}))


def tagged(path, tokenizer):
    labels = [label for each in read_tagged(path) for label in each.counting]
    return load_tagged(path, tokenizer, LENGTH, choose_classes(labels, {}))


FORMS = {
    "text": (samples, {"text": "a"}),
    "completion": (samples, {"prompt": "a", "completion": "b"}),
    "messages": (samples, {"messages": TURNS, "tools": TOOLS}),
    "prompt": (lambda path, tokenizer: load_prompts(path, tokenizer, LENGTH).digest, {"prompt": "a", "answer": 4}),
    "pair": (
        lambda path, tokenizer: load_preferences(path, tokenizer, LENGTH).digest,
        {"prompt": "a", "chosen": "b", "rejected": "c"},
    ),
    "rollout": (
        lambda path, tokenizer: load_rollouts(path, tokenizer, LENGTH).digest,
        {"prompt": "a", "completions": [KNOWN, KNOWN], "answer": 4},
    ),
    "rollout of ids": (
        lambda path, tokenizer: load_rollouts(path, tokenizer, LENGTH).digest,
        {"prompt": "a", "prompt_ids": [3], "completions": [{"text": "a", "rewards": [1]}] * 2},
    ),
    "class": (classified, {"text": "a", "text_pair": "b", "label": 1}),
    "words": (tagged, {"tokens": ["a", "b"], "labels": [1, -100]}),
}


def with_a_place(value: object) -> Iterator[object]:
    """`value` with PLACE in each of its places, and under a name that it does not have."""
    yield PLACE
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        for changed in with_a_place(each):
            copy = value.copy()
            copy[key] = changed
            yield copy
    if isinstance(value, dict):
        yield {**value, "name": PLACE}


@pytest.mark.parametrize("form", FORMS)
def test_they_are_read_or_refused_in_one_line(tmp_path, tokenizer, form):
    read, sample = FORMS[form]
    path = tmp_path / "data.jsonl"
    outcomes = {True: 0, False: 0}
    for changed in with_a_place(sample):
        for odd in ODD:
            path.write_text(json.dumps(changed).replace(json.dumps(PLACE), odd) + "\n")
            outcomes[reads(read, path, tokenizer)] += 1
    assert min(outcomes.values()) > 0, outcomes  # of the sample itself much may be odd


def reads(read: Callable, path: Path, tokenizer: Tokenizer) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy's, which are more lines
        try:
            read(path, tokenizer)
        except Error as error:
            assert str(error).startswith(f"{path}:"), error
            assert len(str(error)) < 1000, error
            return False
    return True


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a", "n": ' + "9" * 5000 + "}", "is not JSON (a number of thousands of digits); write one object"),
        ('{"text": ' + "[" * 5000, "is not JSON (nested too deep); write one object a line, or one array of objects"),
        ('{"text": "a", "n": ' + "[" * 100 + "]" * 100 + "}", "is nested more than 100 deep; make it flatter"),
        ('{"text": "a", "n": {"b": "\\ud800"}}', '"b" holds half of a surrogate pair at character 0; correct it'),
        ('{"text": "a", "n": ["a", "b\\ud800"]}', "entry 2 of a list holds half of a surrogate pair at character 1;"),
        ('{"text": "a", "\\udc00": 1}', "a key holds half of a surrogate pair at character 0; correct it"),
    ],
)
def test_what_cannot_be_written_again_is_refused(tmp_path, line, message):
    path = tmp_path / "data.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(Error) as caught:
        read_samples(path)
    assert str(caught.value).startswith(f"{path}:1: {message}")


def test_the_number_of_a_class_does_not_make_a_million_of_them(tmp_path, tokenizer):
    path = tmp_path / "data.jsonl"
    path.write_text('{"text": "a", "label": 1000000000}\n')
    with pytest.raises(Error) as caught:
        classified(path, tokenizer)
    assert str(caught.value) == (f'{path}:1: "label" is 1000000000; number the classes from 0, or give their names')
