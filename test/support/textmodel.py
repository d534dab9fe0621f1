# SPDX-License-Identifier: Apache-2.0
"""A tiny model that reads text: a byte-level tokenizer, so that the command line can be tried from end to end."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from support import models
from support.pipeline import make_bundle

TEXT = "The lamp is lit half an hour before sunset. The wick is trimmed every four hours.\n" * 12

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_tokenizer(merges: Sequence[tuple[str, str]] = ()) -> Tokenizer:
    """A token for each byte, and one for each of `merges`, in which a space is written \u0120."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet()) + [first + second for first, second in merges]
    tokenizer = Tokenizer(BPE({symbol: index for index, symbol in enumerate(symbols)}, list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make_tokenizer(
    folder: Path, chat_template: str | None = CHATML, merges: Sequence[tuple[str, str]] = ()
) -> PreTrainedTokenizerFast:
    """Saves byte_tokenizer(merges) with special tokens and a chat template into `folder`."""
    fast = PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(merges),
        eos_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
        chat_template=chat_template,
    )
    fast.save_pretrained(folder)
    return fast


def make_text_bundle(
    folder: Path, *, seq_len: int = 32, batch: int = 2, seed: int = 0, layers: int = 2, **options: object
) -> Path:
    models.save(models.build("llama", seed=seed, num_hidden_layers=layers), folder / "source")
    make_tokenizer(folder / "source")
    return make_bundle(folder / "source", folder, seq_len=seq_len, batch=batch, **options)


def made_once(cases: Mapping[str, tuple[str, dict]], factory: pytest.TempPathFactory) -> Callable[[str], tuple]:
    """By a case's name a tiny model of its family, with its fields and two layers, and the model's folder."""

    @functools.cache
    def make(name: str) -> tuple[PreTrainedModel, Path]:
        family, fields = cases[name]
        folder = factory.mktemp("source") / "tiny"
        model = models.build(family, **{"num_hidden_layers": 2, **fields})
        models.save(model, folder)
        make_tokenizer(folder)
        return model, folder

    return make
