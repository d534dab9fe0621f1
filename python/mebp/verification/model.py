# SPDX-License-Identifier: Apache-2.0
"""The transformers model that a bundle was made of, without its weights, if there is memory for it."""

import os
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from mebp.errors import Error
from mebp.exporter.source import resolve
from mebp.memory import free_bytes

_PARAMETER = 12  # bytes: in float64, and beside it as the session gives it
_LOGIT = 32  # in float64, with their log-softmax and the gradients of both


def read_config(bundle: Path, reference: str | os.PathLike[str] | None) -> PreTrainedConfig:
    """Of the model that `reference` names, or that the bundle brings."""
    folder = bundle / "tokenizer"
    if reference is None and not (folder / "config.json").exists():
        raise Error(f"{bundle}: has no config.json to build the reference from; name the model with --reference")
    # Only a model that is in memory already is saved anywhere.
    return resolve(folder if reference is None else os.fspath(reference), bundle, shape_only=True).config


def build_model(config: PreTrainedConfig) -> PreTrainedModel:
    """In float32, with random weights."""
    config.use_cache = False
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def check_memory(bundle: Path, parameters: int, logits: int) -> None:
    """Raises Error where float64 does not fit what is free, which would end this process without a word."""
    needed, free = _PARAMETER * parameters + _LOGIT * logits, free_bytes()
    if needed > free:
        raise Error(
            f"{bundle}: float64 needs at least {needed / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free; give a "
            "shorter --seq-len, or verify the same layers in a smaller model"
        )
