# SPDX-License-Identifier: Apache-2.0
"""Types of the tensors of quantised files, without llama.cpp, which test/e2e/test_gguf_quantized.py asks."""

from collections import Counter

from mebp.gguf.quantized_types import Sizes, quantized_types


def decoder(layers: int, hidden: int, keys: int, inner: int, words: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (words, hidden), "output_norm.weight": (hidden,)}
    for layer in range(layers):
        each = {"attn_q": (hidden, hidden), "attn_k": (keys, hidden), "attn_v": (keys, hidden),
                "attn_output": (hidden, hidden), "ffn_gate": (inner, hidden), "ffn_up": (inner, hidden),
                "ffn_down": (hidden, inner), "attn_norm": (hidden,), "ffn_norm": (hidden,)}  # fmt: skip
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in each.items()}
    return shapes


def test_most_of_rows_of_896_numbers_are_q5_0():
    """Qwen2.5-0.5B."""
    found = quantized_types("q4_k_m", decoder(24, 896, 128, 4864, 151936), Sizes(24))
    assert Counter(found.values()) == {"F32": 49, "Q5_0": 132, "Q8_0": 13, "Q4_K": 12, "Q6_K": 12}
    more = [number for number in range(24) if found[f"blk.{number}.ffn_down.weight"] == "Q6_K"]
    assert more == [0, 1, 2, 5, 8, 11, 14, 17, 20, 21, 22, 23]
    assert [number for number in range(24) if found[f"blk.{number}.attn_v.weight"] == "Q8_0"] == more


def test_the_order_of_tensors_does_not_count():
    shapes = decoder(16, 256, 64, 512, 99)
    found = quantized_types("q4_k_s", shapes, Sizes(16))
    assert quantized_types("q4_k_s", dict(reversed(shapes.items())), Sizes(16)) == found
    assert [number for number in range(16) if found[f"blk.{number}.attn_v.weight"] == "Q5_K"] == [0, 1, 2, 3]
    assert [number for number in range(16) if found[f"blk.{number}.ffn_down.weight"] == "Q5_K"] == [0, 1]


def test_a_head_of_its_own():
    shapes = decoder(4, 256, 64, 512, 99)
    assert quantized_types("q4_0", shapes, Sizes(4))["token_embd.weight"] == "Q6_K"
    found = quantized_types("q4_0", {**shapes, "output.weight": (99, 256)}, Sizes(4))
    assert (found["token_embd.weight"], found["output.weight"]) == ("Q4_0", "Q6_K")
    assert {*quantized_types("q8_0", shapes, Sizes(4)).values()} == {"F32", "Q8_0"}


def test_eight_experts():
    shapes = decoder(4, 256, 64, 512, 99)
    found = quantized_types("q4_k_m", shapes, Sizes(4, experts=8))
    kinds = {name: found[f"blk.0.{name}.weight"] for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
    assert kinds == {"attn_q": "Q4_K", "attn_k": "Q8_0", "attn_v": "Q8_0", "attn_output": "Q5_K"}
    assert quantized_types("q5_k_m", shapes, Sizes(4, experts=8))["blk.0.attn_output.weight"] == "Q5_K"
    assert quantized_types("q4_k_m", shapes, Sizes(4, experts=7))["blk.0.attn_k.weight"] == "Q4_K"


def test_sizes_are_those_of_the_file():
    keys = {"block_count": 80, "attention.head_count": 64, "attention.head_count_kv": 8}
    assert Sizes.of("llama", keys) == Sizes(80, 0, True)
    assert Sizes.of("qwen3", keys) == Sizes.of("llama", {**keys, "attention.head_count_kv": 64}) == Sizes(80)
    assert Sizes.of("qwen2", {**keys, "attention.head_count_kv": 64}).is_70b
    assert Sizes.of("qwen3moe", {"block_count": 3, "expert_count": 5}) == Sizes(3, 5)


def test_what_is_left():
    shapes = {"blk.0.ffn_gate_inp_shexp.weight": (1, 256), "blk.0.exp_probs_b.bias": (8, 256), "position_embd.weight":
              (64, 256), "blk.0.ffn_gate_inp.weight": (8, 256), "blk.0.ssm_alpha.weight": (8, 256)}  # fmt: skip
    assert [*quantized_types("q6_k", shapes, Sizes(1)).values()].count("F32") == 4
