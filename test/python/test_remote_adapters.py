# SPDX-License-Identifier: Apache-2.0
"""What Python knows of each kind of adapters in format/adapters.h whose trained factor may be on another machine."""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.remote_adapters import MIDDLES, adapted_layer, adapter_kinds, is_factor, kind_of, listed_kinds, remote_kinds
from mebp.remote_adapters.middle import RemoteAdapter
from mebp.shared_options import shared_options

ROOT = Path(__file__).resolve().parents[2]
LAYER = "model.layers.0.self_attn.q_proj"
TOKENS, INPUTS, OUTPUTS, DOWN, UP = 40, 12, 9, 5, 7
SHAPES = {"private-lora": (UP, DOWN)}  # of what is trained


def options_of_the_table() -> dict[str, list[str]]:
    """{name: the options that not every adapter takes}."""
    rows = re.findall(r'\{"([\w-]+)",[^{}]*\{([^{}]*)\}\}', (ROOT / "format" / "adapters.h").read_text())
    return {name: re.findall(r'"([\w-]+)"', options) for name, options in rows}


def test_lora_is_the_default():
    assert adapter_kinds()[0].name == "lora"
    assert "lora" not in [kind.name for kind in remote_kinds()]
    assert listed_kinds() == " or ".join(kind.name for kind in remote_kinds())


def test_each_has_a_middle_and_a_class():
    names = [kind.name for kind in remote_kinds()]
    assert list(MIDDLES) == names
    classes = {adapter.kind: adapter for adapter in RemoteAdapter.__subclasses__()}
    assert sorted(classes) == sorted(names)
    for adapter in classes.values():
        assert getattr(mebp, adapter.__name__) is adapter


def test_a_class_has_the_options_of_its_row():
    table = options_of_the_table()
    assert [*table] == [kind.name for kind in adapter_kinds()]
    for adapter in RemoteAdapter.__subclasses__():
        names = {field.name.replace("_", "-") for field in fields(adapter)} - {"targets"}
        assert {"split-layers" if name == "layers" else name for name in names} == set(table[adapter.kind])


def test_options_are_said_once():
    assert {option for options in options_of_the_table().values() for option in options} <= shared_options().keys()


@pytest.mark.parametrize("name", MIDDLES)
def test_keys(name):
    (kind,) = (each for each in remote_kinds() if each.name == name)
    key = kind.key_of(LAYER)
    assert is_factor(key) and kind_of(key) is kind and adapted_layer(key) == LAYER
    for other in (
        f"base_model.model.{LAYER}.lora_A.weight",
        f"base_model.model.{LAYER}.lora_B.weight",
        f"{LAYER}.weight",
    ):
        assert kind_of(other) is None and adapted_layer(other) is None


@pytest.mark.parametrize("name", MIDDLES)
def test_what_a_server_sees_is_what_is_trained(name):
    generator, middle = np.random.default_rng(5), MIDDLES[name]
    trained, u = generator.normal(size=SHAPES[name]), generator.normal(size=(TOKENS, DOWN))
    v = middle.apply(u, trained)
    assert middle.ranks(*trained.shape) == (DOWN, v.shape[1])
    np.testing.assert_allclose(middle.find(u, v), trained, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MIDDLES)
def test_as_lora_it_computes_the_same(name):
    generator, middle = np.random.default_rng(6), MIDDLES[name]
    trained, x = generator.normal(size=SHAPES[name]), generator.normal(size=(TOKENS, INPUTS))
    a, b = generator.normal(size=(DOWN, INPUTS)), generator.normal(size=(OUTPUTS, middle.ranks(*trained.shape)[1]))
    lora_a, lora_b = middle.as_lora(a, b, trained)
    np.testing.assert_allclose(x @ lora_a.T @ lora_b.T, middle.apply(x @ a.T, trained) @ b.T, rtol=1e-12, atol=1e-12)
