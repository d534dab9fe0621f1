# SPDX-License-Identifier: Apache-2.0
"""bench/parts/reduced_shapes.py: each public shape becomes a tiny model that differs in sizes and counts alone."""

import pytest
import torch
import transformers
from parts.models.layers import layer_kinds
from parts.public_shapes import PUBLIC_SHAPES, SHAPES, configuration, published
from parts.reduced_shapes import kept_layers, layers_of, reduced
from transformers import AutoModelForCausalLM

# Whole numbers that say what is computed.
RULES = {
    "altup_num_inputs",
    "attn_layer_offset",
    "attn_layer_period",
    "conv_L_cache",
    "conv_kernel",
    "decoder_sparse_step",
    "expand",
    "expert_layer_offset",
    "expert_layer_period",
    "full_attention_interval",
    "interleave_moe_layer_step",
    "linear_conv_kernel_dim",
    "mamba_d_conv",
    "mamba_expand",
    "max_position_embeddings",
    "moe_layer_freq",
    "n_shared_experts",
    "no_rope_layer_interval",
    "patch_size",
    "rope_theta",
    "rope_local_base_freq",
    "sliding_window_pattern",
    "spatial_merge_size",
}
NAMES = [each.name for each in PUBLIC_SHAPES]


def differences(name: str, before: object, after: object) -> list[str]:
    """What of a field is neither as it was nor a size that has become smaller."""
    if isinstance(before, dict):
        return [text for key in before for text in differences(f"{name}.{key}", before[key], after[key])]
    if before == after:
        return []
    is_size = isinstance(before, int) and not isinstance(before, bool) and name.split(".")[-1] not in RULES
    shrinks = is_size and isinstance(after, int) and 0 < after < before
    is_rotation = "rope_scaling." in name or "rope_parameters." in name  # their whole numbers are no sizes
    shortens = isinstance(before, list | str) and type(before) is type(after) and len(after) < len(before)
    is_pattern = isinstance(before, list) or "pattern" in name
    counts = name.endswith("mrope_section") and all(0 < now < then for then, now in zip(before, after, strict=True))
    is_smaller = (shrinks and not is_rotation) or (shortens and is_pattern) or counts
    return [] if is_smaller else [f"{name}: {before} became {after}"]


@pytest.mark.parametrize("name", NAMES)
def test_only_sizes_and_counts_differ(name):
    assert differences("", SHAPES[name], reduced(SHAPES[name])) == []


@pytest.mark.parametrize("name", NAMES)
def test_each_kind_of_layers_is_left_in_a_tiny_model(name):
    small = reduced(SHAPES[name])
    config = configuration(small)
    assert set(layers_of(small)) == set(layers_of(SHAPES[name]))
    kind = getattr(transformers, small["architectures"][0]) if "text_config" in small else None
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config) if kind is None else kind._from_config(config)
    assert model.num_parameters() < 2_500_000
    assert 2 <= len(layer_kinds(config)) <= 15


def test_every_configuration_says_where_it_was_read():
    untraced = {each.name for each in PUBLIC_SHAPES if not each.source}
    assert untraced == {"GLM-4-9B", "Command-R-35B", "Llama-3-8B"}
    for each in PUBLIC_SHAPES:
        assert not each.source or (each.source.count("/") >= 2 and " " in each.source), each.name
    assert len(NAMES) == len(set(NAMES))
    assert [each.name for each in published("cohere")] == ["Aya-23-8B"]


def test_one_period_of_the_layers_is_kept():
    sliding, full = "sliding", "full"
    assert kept_layers([sliding, sliding, full] * 4, [sliding, sliding, full] * 4) == [0, 1, 2]
    # the pattern may end within a period
    assert kept_layers([sliding, full] * 4 + [sliding], [sliding, full] * 4 + [sliding]) == [0, 1]
    # no period: up to the last new kind
    assert kept_layers(["conv", "conv", full, "conv", full, full], ["conv", "conv", full, "conv", full, full]) == [
        0,
        1,
        2,
    ]
    # dense layers before those with experts, in one pattern of mixers
    assert kept_layers([full] * 3 + ["full + experts"] * 5, [full] * 8) == [0, 3]
    assert kept_layers([""] * 8, [""] * 8) == [0, 1]


def test_what_is_alike_stays_alike():
    plain = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32}
    every, shared, one = ({**plain, "num_key_value_heads": count} for count in (32, 8, 1))
    assert reduced(every)["num_key_value_heads"] == reduced(every)["num_attention_heads"]
    assert 1 < reduced(shared)["num_key_value_heads"] < reduced(shared)["num_attention_heads"]
    assert reduced(one)["num_key_value_heads"] == 1
    wide = reduced({**plain, "head_dim": 256})
    assert wide["head_dim"] * wide["num_attention_heads"] > wide["hidden_size"]


def test_what_is_per_layer_follows_the_layers_that_are_kept():
    small = reduced(SHAPES["Gemma-4-E2B"])
    assert small["layer_types"] == (["sliding_attention"] * 4 + ["full_attention"]) * 2
    assert small["num_hidden_layers"] == 10 and small["num_kv_shared_layers"] == 5
    assert reduced(SHAPES["Nemotron-H-56B"])["hybrid_override_pattern"] == "M-M-M-M*"
    assert reduced(SHAPES["DeepSeek-V3"])["first_k_dense_replace"] == 1
