# SPDX-License-Identifier: Apache-2.0
"""Labelled texts: what a model is to tell apart."""

import json

import pytest

from mebp.data.classes import Label, read_classified
from mebp.data.columns import Columns
from mebp.data.sources import Source
from mebp.data.token_classes import read_tagged
from mebp.errors import Error
from mebp.training.objectives import class_of
from mebp.training.options import TrainingOptions


def classes_of(path, task: str, *samples: dict) -> list[str]:
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    options = TrainingOptions("model", str(path), task=task)
    return class_of(options).classes_of(options, {"id2label": {"0": "fish", "1": "boat"}})


def test_labels_of_a_model_that_knows_them(tmp_path):
    samples = {"text": "a", "label": "boat"}, {"text": "b", "label": "fish"}
    assert classes_of(tmp_path / "data.jsonl", "classify", *samples) == ["fish", "boat"]


@pytest.mark.parametrize(
    ("task", "sample"),
    [
        ("classify", {"text": "a", "label": "boat"}),
        ("token-classify", {"tokens": ["a", "b"], "labels": ["boat", -100]}),
    ],
)
def test_one_label_alone_is_refused(tmp_path, task, sample):
    with pytest.raises(Error) as caught:
        classes_of(tmp_path / "data.jsonl", task, sample, sample)
    advice = "so there is nothing to tell apart; add samples of other classes"
    assert str(caught.value) == f"{tmp_path}/data.jsonl: every label is 'boat', {advice}"


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        ("text,label\na,harbour\nb,true\n", ["harbour", "true"]),
        ("Text;Label;text_pair\na;0;\nb;12;c\n", [0, 12]),
        ("text\tlabel\na\t1\nb\t-100\n", [1, -100]),
    ],
)
@pytest.mark.parametrize("name", ["data.csv", "data"])
def test_a_table_of_texts(tmp_path, name, content, labels):
    if name == "data.csv" and "\t" in content:
        name = "data.tsv"
    (tmp_path / name).write_text(content)
    first, second = read_classified(tmp_path / name)
    assert [first.text, second.text, first.pair] == ["a", "b", None] and second.pair == (
        "c" if ";" in content else None
    )
    places = (f"{tmp_path / name}:{line}" for line in (2, 3))
    assert [first.label, second.label] == [Label(*each) for each in zip(places, labels, strict=True)]


def test_a_table_of_words(tmp_path):
    (tmp_path / "data.csv").write_text(
        'tokens,labels\nthe boat,other place\n"[""the"", ""boat, too""]","[0, -100]"\nthe boat,0 -100\n'
    )
    first, second, third = read_tagged(tmp_path / "data.csv")
    assert [each.words for each in (first, second, third)] == [["the", "boat"], ["the", "boat, too"], ["the", "boat"]]
    assert [label.value for label in first.labels] == ["other", "place"]
    assert second.labels[0].value == third.labels[0].value == 0 and second.labels[1] is third.labels[1] is None


def test_other_columns_of_a_table(tmp_path):
    (tmp_path / "data.csv").write_text("Sentence,Label\na,3\n")
    source = Source.of(tmp_path / "data.csv", Columns.read("text=Sentence,label=Label"))
    assert read_classified(source)[0].label.value == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sentence,label\na,b\n", ':2: has no "text"; give {"text", "label"}, with or without "text_pair", a line, or '
         "name your columns with --columns"),
        ("text,label\na\n", ":2: has 1 fields where the header has 2; put quotes around fields that have ',' in them"),
        ("text,label\n", ": has no samples; give another file"),
        ("text,label\n,b\n", ':2: "text" is empty, so there is nothing to tell its class by; leave it out'),
    ],
)  # fmt: skip
def test_a_table_that_is_refused(tmp_path, content, message):
    (tmp_path / "data.csv").write_text(content)
    with pytest.raises(Error) as caught:
        read_classified(tmp_path / "data.csv")
    assert str(caught.value) == f"{tmp_path}/data.csv{message}"


def test_words_that_are_no_list_are_refused(tmp_path):
    (tmp_path / "data.csv").write_text("tokens,labels\n\"['the']\",0\n")
    with pytest.raises(Error) as caught:
        read_tagged(tmp_path / "data.csv")
    message = '"tokens" is a text that is not JSON; give the value itself'
    assert str(caught.value) == f"{tmp_path}/data.csv:2: {message}"
