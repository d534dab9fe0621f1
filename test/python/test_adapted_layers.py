# SPDX-License-Identifier: Apache-2.0
"""How many layers have adapters."""

from mebp.inspect import adapted_layers, few_adapted


def described(trained: int, layers: int, rank: int = 8) -> dict:
    blocks = [{"kind": "embed", "trainable_elements": 0}]
    blocks += [{"kind": "layer", "trainable_elements": 4 * (number < trained)} for number in range(layers)]
    return {"blocks": [*blocks, {"kind": "head", "trainable_elements": 9}], "model": {"lora": {"rank": rank}}}


def test_layers_are_counted():
    assert adapted_layers(described(4, 56)) == (4, 56)


def test_fewer_than_half_are_worth_a_warning():
    assert few_adapted(described(4, 56)).startswith("warning: 4 of 56 layers have adapters")
    assert few_adapted(described(28, 56)) is None
    assert few_adapted(described(0, 56, rank=0)) is None
