# SPDX-License-Identifier: Apache-2.0
"""A tiny model that reads text: a byte-level tokenizer, so that the command line can be tried from end to end."""

from pathlib import Path

import models
from pipeline import make_bundle
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast


def byte_tokenizer() -> Tokenizer:
    """A token for each byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({symbol: index for index, symbol in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make_text_bundle(folder: Path, *, seq_len: int = 32, batch: int = 2, seed: int = 0) -> Path:
    fast = PreTrainedTokenizerFast(tokenizer_object=byte_tokenizer(), eos_token="<|endoftext|>")
    model = models.build("llama", seed=seed, num_hidden_layers=2)
    models.save(model, folder / "source")
    fast.save_pretrained(folder / "source")
    return make_bundle(folder / "source", folder, seq_len=seq_len, batch=batch)
