# SPDX-License-Identifier: Apache-2.0
"""Tokenizers that know little or nothing of the text."""

import json

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers

from mebp.data import load_dataset
from mebp.data.classes import load_classified
from mebp.data.masking import Masking, load_masked, load_measured
from mebp.data.preferences import load_preferences
from mebp.data.prompts import load_prompts
from mebp.data.rollouts import load_rollouts
from mebp.data.token_classes import load_tagged
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from support.textmodel import make_tokenizer

WORDS = {"[UNK]": 0, "[SEP]": 1, "[MASK]": 2, "lamp": 3, "lit": 4, "the": 5}


def save(folder, backend: Backend) -> Tokenizer:
    backend.save(str(folder / "tokenizer.json"))
    names = {"eos_token": "[SEP]", "mask_token": "[MASK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return Tokenizer.of_model(folder)


def words(folder, vocabulary=WORDS) -> Tokenizer:
    backend = Backend(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return save(folder, backend)


def test_what_stands_for_unknown_text(tmp_path):
    assert words(tmp_path).unknown == 0
    make_tokenizer(tmp_path / "tokenizer")
    assert Tokenizer(tmp_path).unknown is None  # bytes
    assert save(tmp_path, Backend(models.BPE({"[SEP]": 0, "a": 1}, []))).unknown is None  # leaves it out


def test_a_tokenizer_that_makes_nothing_is_refused(tmp_path):
    backend = Backend(models.BPE({"[SEP]": 0, "a": 1}, []))
    backend.normalizer = normalizers.Replace("a", "")
    with pytest.raises(Error) as caught:
        save(tmp_path, backend)
    assert str(caught.value) == (
        f"{tmp_path}/tokenizer.json: makes no token of 'The lamp is lit at 7. \u041b\u0430\u043c\u043f\u0430 "
        "\u0433\u043e\u0440\u0438\u0442. \u706f\u4eae\u4e86\u3002'; use the tokenizer that the model was trained with"
    )


def test_a_vocabulary_of_another_script_is_read(tmp_path):
    tokenizer = save(tmp_path, Backend(models.BPE({"[SEP]": 0, "\u706f": 1}, [])))
    assert tokenizer.encode_document("\u706f\u706f") == [1, 1]


def test_a_vocabulary_without_its_unknown_token_is_refused(tmp_path):
    with pytest.raises(Error) as caught:
        words(tmp_path, {"[SEP]": 0})
    beginning = f"{tmp_path}/tokenizer.json: makes no tokens of some text ("
    assert str(caught.value).startswith(beginning)
    assert str(caught.value).endswith("); use the tokenizer that the model was trained with")


def masked(path, tokenizer, length):
    return load_masked(path, tokenizer, length, Masking.of(tokenizer, 100), None).whole


def masked_to_measure(path, tokenizer, length):
    return load_measured(path, tokenizer, length, 100)


COMPLETIONS = [{"text": "the lamp"}, {"text": "lit lamp"}]
READERS = {
    "text": (load_dataset, {"text": "TEXT"}),
    "completion": (load_dataset, {"prompt": "TEXT", "completion": "the"}),
    "classify": (lambda *given: load_classified(*given, ["a"]), {"text": "TEXT", "label": "a"}),
    "token-classify": (lambda *given: load_tagged(*given, ["a"]), {"tokens": ["TEXT"], "labels": ["a"]}),
    "masked": (masked, {"text": "TEXT"}),
    "masked to measure": (masked_to_measure, {"text": "TEXT"}),
    "pairs": (load_preferences, {"prompt": "TEXT", "chosen": "the", "rejected": "lit"}),
    "prompts": (load_prompts, {"prompt": "TEXT"}),
    "rollouts": (load_rollouts, {"prompt": "TEXT", "completions": COMPLETIONS}),
}


@pytest.mark.parametrize("kind", READERS)
def test_text_that_is_mostly_unknown_is_said(tmp_path, kind):
    load, sample = READERS[kind]
    tokenizer, path = words(tmp_path), tmp_path / "data.jsonl"

    def notes(text: str) -> list[str]:
        path.write_text(json.dumps(sample).replace("TEXT", text) + "\n")
        return [note for note in load(path, tokenizer, 60).notes if "does not know" in note]

    assert notes("the lamp lit " * 8) == []
    (note,) = notes("die Lampe brennt " * 8)
    assert note.startswith(f"{path}: the model's tokenizer does not know ") and note.endswith("% of its tokens")
