# SPDX-License-Identifier: Apache-2.0
"""The transformers model that a bundle was made of, without its weights, if there is memory for it."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from huggingface_hub.errors import LocalEntryNotFoundError
from transformers import PreTrainedConfig, PreTrainedModel

from mebp.errors import Error
from mebp.exporter.classifier import name_classes
from mebp.exporter.source import resolve
from mebp.memory import free_bytes
from mebp.tasks import CAUSAL, TASKS

_PARAMETER = 12  # bytes: in float64, and beside it as the session gives it
_LOGIT = 32  # in float64, with their log-softmax and the gradients of both


def read_config(
    bundle: Path, reference: str | os.PathLike[str] | None, task: str = CAUSAL, classes: Sequence[str] = ()
) -> PreTrainedConfig:
    """Of the model for `task` that `reference` names, or that the bundle brings, with the bundle's classes if it has
    some."""
    folder = bundle / "tokenizer"
    if reference is None and not (folder / "config.json").exists():
        raise Error(f"{bundle}: has no config.json to build the reference from; name the model with --reference")
    # Only a model that is in memory already is saved anywhere.
    named = folder if reference is None else os.fspath(reference)
    try:
        config = resolve(named, bundle, shape_only=True, task=task).config
    except Error as error:
        if isinstance(error.__cause__, LocalEntryNotFoundError):
            raise Error(
                f"--reference {reference}: is not a folder, and not in the hub's cache; verify fetches nothing, so "
                "download its config.json first"
            ) from error
        raise
    if classes:
        name_classes(config, classes)
    return config


def build_model(config: PreTrainedConfig, task: str = CAUSAL) -> PreTrainedModel:
    """In float32, with random weights. Which attention computes it is chosen here and by Reference, and never by
    `config`, whose author could name a kernel on the hub."""
    config.use_cache = False
    return getattr(transformers, TASKS[task].auto).from_config(
        config,
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",
        trust_remote_code=False,
    )


def check_memory(bundle: Path, parameters: int, logits: int) -> None:
    """Raises Error where float64 does not fit what is free, which would end this process without a word."""
    needed, free = _PARAMETER * parameters + _LOGIT * logits, free_bytes()
    if needed > free:
        raise Error(
            f"{bundle}: float64 needs at least {needed / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free; give a "
            "shorter --seq-len, or verify the same layers in a smaller model"
        )
