# SPDX-License-Identifier: Apache-2.0
"""Adapters of parameters that no linear layer has, such as those of experts, as PEFT stores them.

Of E experts, A is [E * rank, in] with the rows of one after those of another, and B [out, rank * E] with the columns of
each E apart. Their keys name the module that has the parameter, so a bundle says which parameter each belongs to.
"""

from collections.abc import Mapping

import numpy as np

from mebp.words import counted


def adapted_parameters(description: Mapping) -> dict[str, str]:
    """{PEFT key: the parameter's name}; description: the bundle's, as mebp.inspect gives it."""
    return {each["name"]: each["adapts"] for each in description["trainables"] if "adapts" in each}


def factors_of_parameters(description: Mapping) -> dict[str, tuple[str, str]]:
    """{the parameter's name: the keys of its A and B}."""
    found: dict[str, tuple[str, str]] = {}
    for key, name in adapted_parameters(description).items():
        found[name] = (*found.get(name, ()), key)
    return found


def product(a: np.ndarray, b: np.ndarray, rank: int) -> np.ndarray:
    """B A of each expert below each other, [E * out, in]."""
    experts = b.shape[1] // rank
    each = b.reshape(len(b), rank, experts).transpose(2, 0, 1) @ a.reshape(experts, rank, -1)
    return each.reshape(-1, a.shape[1])


def unreached(values: Mapping[str, np.ndarray], description: Mapping) -> str | None:
    """Which experts have zeros alone in B, in a few words; None where none has. `values`: gradients, or an adapter that
    began with zeros: no token of what they come from went to these experts."""
    rank = description["model"]["lora"]["rank"]
    found = {}
    for name, (_, key) in factors_of_parameters(description).items():
        experts = values[key].shape[1] // rank
        zeros = int(np.sum(~values[key].reshape(-1, experts).any(axis=0)))
        if experts > 1 and zeros:
            found[name] = zeros, experts
    if not found:
        return None
    name, (zeros, experts) = max(found.items(), key=lambda each: each[1])
    also = f", and to some of {counted(len(found) - 1, 'other parameter')}" if len(found) > 1 else ""
    return f"{zeros} of the {experts} experts of {name}{also}"
