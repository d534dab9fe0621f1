# SPDX-License-Identifier: Apache-2.0
"""What a bundle's manifest says of adapters in llama.cpp: it puts numbers where the tables of architectures do."""

import re

import numpy as np
import pytest

from mebp.gguf.adapter_places import HEAD, TIED, WITHOUT_ADAPTERS, adapter_places, boxes
from mebp.gguf.architectures import ARCHITECTURES
from support import models

# llama.cpp has value heads as wide as key heads.
DELTA = {"linear_value_head_dim": 12, "linear_num_key_heads": 2, "linear_num_value_heads": 6}
FAMILIES = {**{name: {} for name in ("llama", "mistral", "qwen2", "gemma3_text", "gemma4_small", "phi3", "lfm2",
                                     "qwen3_moe", "granite")},
            "gpt2_tanh": {}, "qwen3_5_text": DELTA, "qwen3_next": DELTA}  # fmt: skip


def spread(found: list[list[int]]) -> np.ndarray:
    """The numbers that boxes are of, by their definition."""
    parts = [np.empty(0, int)]
    for first, *extents in found:
        numbers = np.array([first])
        for extent, stride in zip(extents[::2], extents[1::2], strict=True):
            numbers = (numbers[:, None] + stride * np.arange(extent)).reshape(-1)
        parts.append(numbers)
    return np.concatenate(parts)


@pytest.mark.parametrize("seed", range(50))
def test_boxes_have_any_order(seed):
    chance = np.random.default_rng(seed)
    extents = chance.integers(1, 6, 4)
    whole = np.arange(extents.prod()).reshape(extents).transpose(chance.permutation(4)).reshape(-1)
    assert np.array_equal(spread(boxes(whole)), whole)
    some = chance.permutation(chance.integers(1, 40))
    assert np.array_equal(spread(boxes(some)), some)


def test_an_order_of_heads_is_one_box():
    assert boxes(np.arange(576).reshape(9, 2, 32).swapaxes(1, 2).reshape(-1)) == [[0, 9, 64, 32, 1, 2, 32]]
    assert boxes(np.arange(7)) == [[0, 7, 1]]


@pytest.mark.parametrize("family", FAMILIES)
def test_places_are_those_of_the_table(family):
    model = models.build(family, **FAMILIES[family])
    config, shapes = model.config.to_dict(), {name: tuple(each.shape) for name, each in model.state_dict().items()}
    architecture = ARCHITECTURES[config["model_type"]]
    found = adapter_places(config, shapes, has_tied_head=False)
    assert found["architecture"] == architecture.name
    checked = 0
    for name, shape in shapes.items():
        module = name.removesuffix(".weight")
        weight = architecture.weight_of(module)
        number = re.search(r"\.([0-9]+)\.", name)
        place = found["layers"].get(re.sub(r"\.[0-9]+\.", ".*.", module, count=1))
        if (
            weight is None
            or not weight.is_linear
            or weight.theirs.endswith("_embd")
            or name == module
            or len(shape) != 2
        ):
            assert place is None or place == {"refused": WITHOUT_ADAPTERS}
            continue
        table = architecture.place(name, config, "test")
        assert [each.replace("*", number[1] if number else "*") for each in place["tensors"]] == [*table.names]
        rows, columns = shape[::-1] if table.turned else shape
        for expected, ours, count in ((table.rows, "rows", rows), (table.columns, "columns", columns)):
            order = expected(count) if expected else np.arange(count)
            assert np.array_equal(spread(place[ours]) if ours in place else np.arange(count), order)
        assert place.get("cuts", []) == [*table.cuts]
        checked += 1
    assert checked >= 4


def test_what_has_no_place_has_a_reason():
    shapes = {"model.layers.0.self_attn.q_proj.weight": (8, 8), "lm_head.weight": (9, 8)}
    config = {"model_type": "llama", "num_attention_heads": 2, "hidden_size": 8, "vocab_size": 9}
    assert adapter_places(config, shapes, has_tied_head=True)["layers"][HEAD] == {"refused": TIED}
    assert adapter_places(config, shapes, has_tied_head=False)["layers"][HEAD] == {"tensors": ["output.weight"]}
    refused = adapter_places({"model_type": "mamba"}, shapes, has_tied_head=False)
    assert refused.keys() == {"refused"} and refused["refused"].startswith("model type 'mamba' cannot be written as")
    lacking = adapter_places({"model_type": "llama"}, shapes, has_tied_head=False)
    assert lacking == {
        "refused": "the base model's config.json lacks the number num_attention_heads; download it again"
    }
    projection = {"model.per_layer_model_projection.weight": (8, 8)}
    assert adapter_places({"model_type": "gemma4_text"}, projection, has_tied_head=False)["layers"] == {
        "model.per_layer_model_projection": {"refused": WITHOUT_ADAPTERS}
    }


def test_layers_that_differ_have_places_of_their_own():
    """One with other heads, as no family has it."""
    name = "model.layers.{}.self_attn.q_proj.weight"
    config = {"model_type": "llama", "num_attention_heads": 2}
    found = adapter_places(config, {name.format(0): (8, 8), name.format(1): (16, 8)}, has_tied_head=False)["layers"]
    assert found["model.layers.*.self_attn.q_proj"]["rows"] == [[0, 2, 4, 2, 1, 2, 2]]
    assert found["model.layers.1.self_attn.q_proj"] == {
        "tensors": ["blk.1.attn_q.weight"],
        "rows": [[0, 2, 8, 4, 1, 2, 4]],
    }
