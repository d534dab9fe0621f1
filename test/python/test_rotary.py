# SPDX-License-Identifier: Apache-2.0
"""mebp.exporter.rotary: what is computed instead is what transformers computes."""

import pytest
import torch
from transformers import AutoModelForCausalLM, DeepseekV2Config

from mebp.errors import Error
from mebp.exporter.rotary import computed_tables
from support import models

_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "mscale": 1.0}


@pytest.mark.parametrize("rope", [{"rope_type": "default"}, _YARN])
def test_pairs_of_deepseek_v2_turn_as_its_complex_numbers(rope):
    config = DeepseekV2Config(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        first_k_dense_replace=1,
        q_lora_rank=None,
        kv_lora_rank=8,
        qk_rope_head_dim=8,
        qk_nope_head_dim=4,
        v_head_dim=6,
        rope_parameters={"rope_theta": 1e4, **rope},
    )
    torch.manual_seed(0)
    assert_same(AutoModelForCausalLM.from_config(config, dtype=torch.float64).eval(), torch.randint(50, (2, 20)))


_LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0 + 0.1 * i for i in range(12)],
    "long_factor": [2.0 + i for i in range(12)],
    "short_mscale": 1.2,
    "long_mscale": 1.7,
    "original_max_position_embeddings": 32,
}


@pytest.mark.parametrize("rope", [{"rope_type": "default"}, _LONGROPE])
def test_tables_of_phimoe_are_those_of_short_sequences(rope):
    model = models.build("phimoe", num_hidden_layers=1, rope_parameters={"rope_theta": 1e4, **rope})
    assert_same(model, models.token_ids(model, 2, 20))


def test_other_lengths_of_phimoe_are_refused():
    rope = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0, "short_mscale": 1.2, "long_mscale": 1.7}
    rope |= {"original_max_position_embeddings": 32}
    model = models.build("phimoe", num_hidden_layers=1, rope_parameters=rope)
    words = (
        "PhimoeRotaryEmbedding: its rope_type is 'linear', whose scale depends on the length; mebp trains 'default' "
    )
    with computed_tables(model), pytest.raises(Error, match=f"{words}and 'longrope' of it"):
        model(models.token_ids(model, 1, 8), use_cache=False)


def assert_same(model, ids):
    with torch.no_grad():
        expected = model(ids, use_cache=False).logits
        with computed_tables(model):
            actual = model(ids, use_cache=False).logits
        again = model(ids, use_cache=False).logits
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(again, expected)


def test_three_positions_are_one_for_text():
    assert_same(model := models.build("qwen3_5_text"), models.token_ids(model, 2, 12))
