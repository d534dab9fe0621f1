# SPDX-License-Identifier: Apache-2.0
"""A tokenizer as transformers has it, also where its settings say more than tokenizer.json."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from support.textmodel import make_tokenizer

TEXT = "a <|one|>  b<|two|> <|three|> <|im_end|>  c<|four|>"
PLAIN = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}


def settle(folder: Path, **stated: object) -> int:
    """Adds them to the settings; returns the next token's id."""
    make_tokenizer(folder)
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"} | stated))
    tokens = json.loads((folder / "tokenizer.json").read_text())
    return max([*tokens["model"]["vocab"].values(), *(token["id"] for token in tokens["added_tokens"])]) + 1


def added(*tokens: tuple[int, str, bool]) -> dict[str, dict]:
    return {str(index): {"content": text, "special": special, **PLAIN} for index, text, special in tokens}


def same(folder: Path) -> Tokenizer:
    tokenizer, reference = Tokenizer.of_model(folder), AutoTokenizer.from_pretrained(folder)
    assert tokenizer.encode(TEXT) == reference(TEXT, add_special_tokens=False)["input_ids"]
    return tokenizer


def test_tokens_that_stand_in_the_settings_alone(tmp_path):
    first = settle(tmp_path)
    decoder = added((first, "<|one|>", True), (first + 1, "<|two|>", False))
    settle(tmp_path, added_tokens_decoder=decoder, eos_token="<|three|>", extra_special_tokens=["<|four|>"])
    tokenizer = same(tmp_path)
    found = {text: index for index, text in tokenizer.added_tokens.items()}
    assert [found[f"<|{name}|>"] for name in ("one", "two", "three", "four")] == [first + index for index in range(4)]
    assert found["<|one|>"] in tokenizer.special_tokens and found["<|two|>"] not in tokenizer.special_tokens
    assert found["<|three|>"] in tokenizer.stop_tokens


def test_a_token_that_the_settings_have_otherwise(tmp_path):
    settle(tmp_path)
    tokens = json.loads((tmp_path / "tokenizer.json").read_text())["added_tokens"]
    index = next(token["id"] for token in tokens if token["content"] == "<|im_end|>")
    before = Tokenizer.of_model(tmp_path).encode(TEXT)
    stated = {"content": "<|im_end|>", "special": True, **PLAIN, "rstrip": True}
    settle(tmp_path, added_tokens_decoder={str(index): stated})
    assert same(tmp_path).encode(TEXT) != before


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (["x"], "added_tokens_decoder is not as transformers writes it"),
        ({"x": {}}, "added_tokens_decoder is not as transformers writes it"),
        (added((9999, "<|one|>", True)), "gives '<|one|>' the id 9999, and by tokenizer.json it has "),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, stated, message):
    settle(tmp_path, added_tokens_decoder=stated)
    with pytest.raises(Error) as caught:
        Tokenizer.of_model(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'tokenizer_config.json'}: {message}")
