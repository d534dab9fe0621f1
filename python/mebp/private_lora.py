# SPDX-License-Identifier: Apache-2.0
"""Adapters B M A (PrivateLoRA), of which M alone is trained: what they are as LoRA."""

from collections.abc import Mapping

import numpy as np

from mebp.tensor_names import PEFT_PREFIX, lora_factors

_M_SUFFIX = ".lora_M.weight"


def is_factor(name: str) -> bool:
    """Whether a frozen weight of a bundle is an A or a B, and not the model's own."""
    return name.startswith(PEFT_PREFIX)


def key_of_m(layer: str) -> str:
    """Of the trainable that is the M of a linear layer."""
    return f"{PEFT_PREFIX}{layer}{_M_SUFFIX}"


def adapted_layer(key: str) -> str | None:
    """The linear layer that a trainable is the M of; None where it is none."""
    return key[len(PEFT_PREFIX) : -len(_M_SUFFIX)] if key.endswith(_M_SUFFIX) else None


def factors_of(
    description: Mapping[str, object], factors: Mapping[str, np.ndarray]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{key of M: (A [rank_down, in], B [out, rank_up])}; nothing where the bundle trains no M.

    description: the bundle's, as mebp.inspect gives it.
    factors: its frozen A and B, as Session.frozen_factors().
    """
    found = {}
    shared: dict[int, np.ndarray] = {}  # A by its stream: several layers may have one
    for trained in description["trainables"]:
        layer = adapted_layer(trained["name"])
        if layer is not None:
            name_a, name_b = lora_factors(f"{layer}.weight")
            a = shared.setdefault(trained["between"]["a_stream"], factors.get(name_a))
            found[trained["name"]] = (a, factors[name_b])
    return found


def as_lora(
    trainables: Mapping[str, np.ndarray], description: Mapping[str, object], factors: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """{PEFT key: array} of lora_A = A and lora_B = B M [out, rank_down]; what is no M comes back as it is.

    trainables: as Session.trainables(); the others as factors_of has them.
    """
    adapter: dict[str, np.ndarray] = {}
    for key, (a, b) in factors_of(description, factors).items():
        name_a, name_b = lora_factors(f"{adapted_layer(key)}.weight")
        adapter |= {name_a: a, name_b: b @ trainables[key]}
    return adapter or dict(trainables)
