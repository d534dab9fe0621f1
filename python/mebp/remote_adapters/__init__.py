# SPDX-License-Identifier: Apache-2.0
"""Adapters that train something between a frozen A and B: y = W x + B v, where v is of u = A x and of what is trained.

format/adapters.h says what each kind is called, and how the keys end of what it trains.

middle        what a kind has between A and B, and what that is as LoRA
private_lora  PrivateLoRA's
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from mebp.extension import load_runtime
from mebp.remote_adapters.private_lora import PRIVATE_LORA
from mebp.tensor_names import PEFT_PREFIX, lora_factors
from mebp.words import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from mebp.remote_adapters.middle import Middle

MIDDLES: dict[str, Middle] = {"private-lora": PRIVATE_LORA}


class AdapterKind(NamedTuple):
    """One of format/adapters.h."""

    name: str
    title: str
    formula: str
    symbol: str  # of what is trained
    is_remote: bool
    suffix: str  # of the keys of what is trained
    file: str  # in an adapter's folder, of which a session reads it again
    options: list[str]  # that not every kind takes, without dashes

    @property
    def middle(self) -> Middle:
        return MIDDLES[self.name]

    def key_of(self, layer: str) -> str:
        """Of what is trained on a linear layer."""
        return f"{PEFT_PREFIX}{layer}{self.suffix}"


@cache
def adapter_kinds() -> list[AdapterKind]:
    """The default first. Raises mebp.Error where the extension is not built."""
    return [AdapterKind(name, **row) for name, row in load_runtime().adapters().items()]


def remote_kinds() -> list[AdapterKind]:
    """Those whose trained factor may be on another machine than the layers."""
    return [kind for kind in adapter_kinds() if kind.is_remote]


def listed_kinds(option: str | None = None) -> str:
    """These, as a refusal offers them, or those of all kinds that take an option."""
    return listed(kind.name for kind in adapter_kinds() if (option in kind.options if option else kind.is_remote))


def kind_of(key: str) -> AdapterKind | None:
    """The kind that trains what has this key; None where it is another thing."""
    return next((kind for kind in remote_kinds() if key.endswith(kind.suffix)), None)


def kind_of_bundle(description: Mapping) -> AdapterKind | None:
    """Likewise of a bundle, as mebp.inspect describes it."""
    return next((kind for trained in description["trainables"] if (kind := kind_of(trained["name"]))), None)


def is_factor(name: str) -> bool:
    """Whether a frozen weight of a bundle is an A or a B, and not the model's own."""
    return name.startswith(PEFT_PREFIX)


def adapted_layer(key: str) -> str | None:
    """The linear layer that this is trained on; None where it is another thing."""
    kind = kind_of(key)
    return key[len(PEFT_PREFIX) : -len(kind.suffix)] if kind else None


def factors_of(
    description: Mapping[str, object], factors: Mapping[str, np.ndarray]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{key of what is trained: (A [rank_down, in], B [out, rank_up])}; nothing where the bundle has no such adapters.

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
    """{PEFT key: array} of lora_A [rank_down, in] and lora_B [out, rank_down]; what is no such adapter comes back as it
    is.

    trainables: as Session.trainables(); the others as factors_of has them.
    """
    adapter: dict[str, np.ndarray] = {}
    for key, (a, b) in factors_of(description, factors).items():
        names = lora_factors(f"{adapted_layer(key)}.weight")
        adapter |= zip(names, kind_of(key).middle.as_lora(a, b, trainables[key]), strict=True)
    return adapter or dict(trainables)
