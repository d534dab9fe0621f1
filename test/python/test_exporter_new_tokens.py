# SPDX-License-Identifier: Apache-2.0
"""What new tokens make of a tokenizer's files."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from mebp.errors import Error
from mebp.exporter.new_tokens import NewTokens
from mebp.tokenizer import Tokenizer, check_tokens
from support.textmodel import make_tokenizer

NEW = ("<|tool|>", "<|end_tool|>")
TEXTS = ("", "a", " b ", "A lamp, lit.\n", "<|im_end|>", "<|tool")


def written(folder: Path, **stated: object) -> NewTokens:
    """The new tokens, which are added to files whose settings state so much."""
    make_tokenizer(folder)
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"} | stated
    file.write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps({"vocab_size": 260}))
    before = Tokenizer.of_model(folder, NEW)
    new = NewTokens(NEW, before.id_of(NEW[0]), 260)
    new.write(folder)
    return new


@pytest.mark.parametrize("stated", [{}, {"eos_token": "<|three|>", "extra_special_tokens": ["<|four|>"]}], ids=str)
def test_all_readers_find_them_behind_the_others(tmp_path, stated):
    """Also behind tokens that settings alone have."""
    new = written(tmp_path, **stated)
    assert json.loads((tmp_path / "config.json").read_text()) == {"vocab_size": max(260, new.end)}
    tokenizer, reference = Tokenizer.of_model(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    ids = [new.first, new.first + 1]
    assert [tokenizer.id_of(text) for text in NEW] == reference.convert_tokens_to_ids([*NEW]) == ids
    assert len(reference) == new.end
    assert not tokenizer.special_tokens & {*ids} and tokenizer.decode(ids) == "".join(NEW)


def test_the_text_around_them_has_the_tokens_that_it_had(tmp_path):
    new = written(tmp_path)
    tokenizer, reference = Tokenizer.of_model(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    for before in TEXTS:
        for behind in TEXTS:
            whole = f"{before}{NEW[0]}{behind}"
            expected = [*tokenizer.encode(before), new.first, *tokenizer.encode(behind)]
            assert tokenizer.encode(whole) == reference(whole).input_ids == expected, whole


@pytest.mark.parametrize("given", ["", "<|a|>,<|a|>", " ", "-a", ["<|a|>", 3], ["<|a|> "]], ids=repr)
def test_what_cannot_be_a_token_is_refused(given):
    with pytest.raises(
        Error, match=r"^--train-tokens has .*; give different tokens, such as '<\|tool\|>,<\|end_tool\|>'$"
    ):
        check_tokens(given)
