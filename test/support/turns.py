# SPDX-License-Identifier: Apache-2.0
"""Conversations by templates made for a test, with a token for each byte and for each mark."""

import json
from collections.abc import Sequence
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, pre_tokenizers
from tokenizers.models import BPE

from mebp.data import load_dataset
from mebp.tokenizer import Tokenizer

ASKED = [{"role": "user", "content": "Who?"}]
ANSWERED = [*ASKED, {"role": "assistant", "content": "Me."}]
TWICE = [*ANSWERED, {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
CALLS = [{"type": "function", "function": {"name": "f", "arguments": {}}}]
SPECIAL = ("<|endoftext|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|end|>", "<|stop|>")


def make(
    folder: Path, template: str, special: Sequence[str] = SPECIAL, plain: Sequence[str] = (), **settings: object
) -> Tokenizer:
    """A token for each byte; `settings` are those of generation_config.json."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(BPE({symbol: index for index, symbol in enumerate(symbols)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(text) for text in special])
    backend.add_tokens([AddedToken(text, special=False, normalized=False) for text in plain])
    (folder / "tokenizer").mkdir()
    backend.save(str(folder / "tokenizer" / "tokenizer.json"))
    (folder / "tokenizer" / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
    (folder / "tokenizer" / "generation_config.json").write_text(json.dumps(settings))
    (folder / "tokenizer" / "chat_template.jinja").write_text(template)
    return Tokenizer(folder)


def learned(folder: Path, tokenizer: Tokenizer, *turns: Sequence[dict]) -> list[str]:
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps({"messages": each}) + "\n" for each in turns))
    rows = load_dataset(path, tokenizer, 500).rows
    return [tokenizer.backend.decode(row.ids[row.labels >= 0].tolist(), skip_special_tokens=False) for row in rows]


def names(tokenizer: Tokenizer, ids: Sequence[int]) -> set[str]:
    return {tokenizer.backend.id_to_token(index) for index in ids}
