# SPDX-License-Identifier: Apache-2.0
"""The names that one tensor goes by: in checkpoints, in a bundle, in PEFT's adapters (format/tensor_names.h)."""

from collections.abc import Iterable

from mebp.extension import load_runtime

PEFT_PREFIX = "base_model.model."  # of what belongs to an adapter
_PART_PREFIX = "mebp.part."  # of what the compiler makes
_TOKEN_ROWS = ".token_adapter.trainable_tokens_delta"  # what rows of new tokens begin as


def spellings(name: str, base_model: str) -> tuple[str, ...]:
    """How checkpoints write a parameter's name: those of the bare base model lack its prefix, others may add it."""
    return name, name.removeprefix(f"{base_model}."), f"{base_model}.{name}"


def stored_name(names: Iterable[str]) -> str:
    """Of tied tensors' names the one that is stored: the embedding lies within the base model, the head outside."""
    return max(names, key=lambda name: name.count("."))


def lora_factors(weight: str) -> tuple[str, str]:
    """PEFT's names of A [rank, in] and B [out, rank] of a weight."""
    return load_runtime().lora_factors(weight)


def is_of_model(name: str) -> bool:
    """Whether a frozen weight of a bundle is a tensor of the model, or a factor of its adapter."""
    return not name.startswith(_PART_PREFIX) and not name.endswith(_TOKEN_ROWS)
