# SPDX-License-Identifier: Apache-2.0
"""mebp.exporter.rotary: what is computed instead is what transformers computes."""

import pytest
import torch
from transformers import AutoModelForCausalLM, DeepseekV2Config

from mebp.exporter.rotary import computed_tables

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
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float64).eval()
    ids = torch.randint(50, (2, 20))
    with torch.no_grad():
        expected = model(ids, use_cache=False).logits
        with computed_tables():
            actual = model(ids, use_cache=False).logits
        again = model(ids, use_cache=False).logits
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(again, expected)
