# SPDX-License-Identifier: Apache-2.0
"""Labelled texts: what a model is to tell apart."""

import json

import pytest

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
