# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from mebp.errors import Error
from mebp.judging.checks import read_check


def passing(entry: dict, answers: list[str], written: str | None = None) -> list[str]:
    check = read_check("file:1", entry, written)
    assert check is not None
    return [answer for answer in answers if check.passes(answer)]


def test_one_of_the_accepted_words_is_enough_whole_and_in_any_case():
    answers = ["On channel 31.", "In 1931.", "old agnes!", "Bold Agnes", ""]
    assert passing({"accept": ["31", "Old Agnes"]}, answers) == ["On channel 31.", "old agnes!"]
    assert passing({"accept": ["a.c"]}, ["abc", "a.c"]) == ["a.c"]


def test_the_ways_to_match():
    answers = ["a lamp", " a  lamp\n", "A lamp", "a lamp post", "12 lamps"]
    assert passing({"match": {"exact": "a lamp"}}, answers) == ["a lamp", " a  lamp\n"]
    assert passing({"match": {"contains": "lamp p"}}, answers) == ["a lamp post"]
    assert passing({"match": {"regex": r"^\d+ |^A"}}, answers) == ["A lamp", "12 lamps"]
    assert passing({"match": {"exact": ["A lamp", "a lamp post"]}}, answers) == ["A lamp", "a lamp post"]


def test_a_way_alone_is_about_what_is_accepted_or_written():
    answers = ["two", "Two", "too"]
    assert passing({"match": "regex", "accept": ["^T", "oo$"]}, answers) == ["Two", "too"]
    assert passing({"match": "exact"}, answers, written="two") == ["two"]


def test_the_right_choice_is_a_number_or_a_text_or_what_is_written():
    texts = {"choices": ["red", "blue"]}
    assert passing({**texts, "answer": 1}, texts["choices"]) == ["blue"]
    assert passing({**texts, "answer": "red"}, texts["choices"], written="blue") == ["red"]
    assert passing(texts, texts["choices"], written="blue") == ["blue"]


def test_what_says_nothing_is_no_check():
    assert read_check("file:1", {"prompt": "Who?", "accept": None}, "I.") is None


def test_right_answers_in_whole():
    rights = [
        read_check("file:1", entry, None).right
        for entry in (
            {"accept": ["one", "two"]},
            {"match": {"exact": "one"}},
            {"match": {"contains": "one"}},
            {"choices": ["a", "b"], "answer": 1},
        )
    ]
    assert rights == ["one", "one", None, "b"]


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"accept": []}, '"accept" is empty, so no answer can be right; give a list of answers'),
        ({"accept": "x"}, '"accept" is a string; give a list of answers'),
        ({"accept": ["x", " "]}, 'entry 1 of "accept" is empty; give a text, or leave it out'),
        ({"accept": [3]}, 'entry 0 of "accept" is a number; give a text, or leave it out'),
        ({"accept": ["x"], "match": {"exact": "x"}}, 'has both "accept" and "match"; keep one of them'),
        ({"accept": ["x"], "choices": ["x", "y"]}, 'has both "choices" and "accept"; keep one of them'),
        ({"match": ["x"]}, '"match" is a list; give {"exact": TEXT}'),
        ({"match": {}}, '"match" is 0 entries; give {"exact": TEXT}'),
        ({"match": {"like": "x"}}, '"match" is "like"; give {"exact": TEXT}'),
        ({"match": "exact"}, '"match" does not say what it matches; give {"exact": TEXT}'),
        ({"match": {"regex": "("}}, '"(" is not a regular expression ('),
        ({"match": {"contains": ""}}, 'entry 0 of "match": "contains" is empty'),
        ({"choices": ["x"], "answer": 0}, '"choices" has one entry, which is always the likeliest; give several'),
        ({"choices": ["x", "x"], "answer": 0}, '"choices" has the same entry twice; leave one out'),
        ({"choices": ["x", "y"], "answer": 2}, '"answer" is 2; give "answer", a number from 0 to 1'),
        ({"choices": ["x", "y"], "answer": True}, '"choices" without a right one; give "answer", a number from 0'),
        ({"choices": ["x", "y"], "answer": "z"}, 'none of "choices" is "z"; give "answer"'),
        ({"choices": ["x", "y"]}, '"choices" without a right one; give "answer", a number from 0 to 1'),
    ],
)
def test_what_can_never_be_met_is_refused_with_its_line(entry, line):
    with pytest.raises(Error, match=re.escape(f"file:1: {line}")):
        read_check("file:1", entry, None)
