# SPDX-License-Identifier: Apache-2.0
"""Texts that already begin or end with their mark get no second one, in any form of data."""

import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers.processors import TemplateProcessing

from mebp.data import load_dataset
from mebp.data.forms import Document
from mebp.data.packing import cut
from mebp.data.preferences import load_preferences
from mebp.data.prompts import load_prompts
from mebp.tokenizer import Tokenizer
from support.textmodel import make_tokenizer

BEGIN, END, OTHER = "<|im_start|>", "<|endoftext|>", "<|im_end|>"


@pytest.fixture
def tokenizer(tmp_path) -> Tokenizer:
    """It begins a text with BEGIN, and the model stops at END and at OTHER."""
    folder = tmp_path / "tokenizer"
    backend = make_tokenizer(folder)._tokenizer
    ids = [(text, backend.token_to_id(text)) for text in (BEGIN, END)]
    backend.post_processor = TemplateProcessing(f"{BEGIN} $A", None, ids)
    backend.save(str(folder / "tokenizer.json"))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": backend.token_to_id(OTHER)}))
    return Tokenizer(tmp_path)


def text_of(tokenizer: Tokenizer, ids: np.ndarray) -> str:
    return tokenizer.backend.decode([*map(int, ids)], skip_special_tokens=False)


def write(folder: Path, *samples: dict) -> Path:
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


WHOLE = f"{BEGIN}abc{END}"


@pytest.mark.parametrize("text", ["abc", f"{BEGIN}abc", f"abc{END}", WHOLE])
@pytest.mark.parametrize("block", [1 << 16, 3], ids=["short", "long"])
def test_documents(tmp_path, tokenizer, monkeypatch, text, block):
    monkeypatch.setattr("mebp.data.packing.BLOCK", block)
    monkeypatch.setattr("mebp.data.cuts.BLOCK", block)
    rows = load_dataset(write(tmp_path, {"text": text}, {"text": text}), tokenizer, 100).rows
    assert text_of(tokenizer, np.concatenate([row.ids for row in rows])) == WHOLE * 2


def test_a_mark_of_another_kind_is_none_of_a_document(tmp_path, tokenizer):
    rows = load_dataset(write(tmp_path, {"text": f"{OTHER}abc{OTHER}"}), tokenizer, 100).rows
    assert text_of(tokenizer, rows[0].ids) == f"{BEGIN}{OTHER}abc{OTHER}{END}"


@pytest.mark.parametrize("prompt", ["a", f"{BEGIN}a"])
@pytest.mark.parametrize(("completion", "end"), [("b", END), (f"b{END}", END), (f"b{OTHER}", OTHER)])
def test_completions_and_pairs(tmp_path, tokenizer, prompt, completion, end):
    (row,) = load_dataset(write(tmp_path, {"prompt": prompt, "completion": completion}), tokenizer, 100).rows
    assert text_of(tokenizer, row.ids) == f"{BEGIN}ab{end}"
    pair = {"prompt": prompt, "chosen": completion, "rejected": "c"}
    (row,) = load_preferences(write(tmp_path, pair), tokenizer, 100).rows
    assert [text_of(tokenizer, ids) for ids in (row.prompt, row.chosen, row.rejected)] == [
        f"{BEGIN}a", f"b{end}", f"c{END}",
    ]  # fmt: skip


def test_prompts(tmp_path, tokenizer):
    rows = load_prompts(write(tmp_path, {"prompt": "a"}, {"prompt": f"{BEGIN}a"}), tokenizer, 100).rows
    assert [text_of(tokenizer, row.ids) for row in rows] == [f"{BEGIN}a"] * 2


def test_documents_of_an_encoder(tokenizer):
    tokenizer.after_text = tokenizer.encode(END)
    rows = cut([Document("here", text=text) for text in ("abc", WHOLE)], tokenizer, 100)
    assert [text_of(tokenizer, row.ids) for row in rows] == [WHOLE] * 2
