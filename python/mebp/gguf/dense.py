# SPDX-License-Identifier: Apache-2.0
"""Architectures whose layers all attend and have one feed-forward network."""

from collections.abc import Mapping
from pathlib import Path

from mebp.gguf.architecture import WINDOW, WINDOW_THETA, Architecture, one_kind
from mebp.gguf.experts import check_rules
from mebp.gguf.gemma import gemma_config, gemma_metadata
from mebp.gguf.keys import GPT2_FIELDS, Keys
from mebp.gguf.weights import Weight, paired

DECODER = (
    Weight("model.embed_tokens", "token_embd", "Vh"),
    Weight("model.norm", "output_norm", "h"),
    Weight("lm_head", "output", "Vh"),
)
_VALUES = (Weight("self_attn.v_proj", "attn_v", "kh"), Weight("self_attn.o_proj", "attn_output", "hq"))
GATED = (
    Weight("mlp.gate_proj", "ffn_gate", "fh"),
    Weight("mlp.up_proj", "ffn_up", "fh"),
    Weight("mlp.down_proj", "ffn_down", "hf"),
)
NORMS = (Weight("input_layernorm", "attn_norm", "h"), Weight("post_attention_layernorm", "ffn_norm", "h"))
HEAD_NORMS = (Weight("self_attn.q_norm", "attn_q_norm", "w"), Weight("self_attn.k_norm", "attn_k_norm", "w"))

_OF_ATTENTION, _OF_FEED_FORWARD = ("attn_q", "attn_k", "attn_v", "attn_output"), ("ffn_gate", "ffn_up", "ffn_down")


def biases_of_llama(config: Mapping) -> frozenset[str]:
    of_attention = frozenset(_OF_ATTENTION if config.get("attention_bias") else ())
    return of_attention | frozenset(_OF_FEED_FORWARD if config.get("mlp_bias") else ())


WITH_FACTORS = ("default", "llama3")  # llama.cpp reads the factors of Llama 3's positions
# Llama's, whose heads llama.cpp has in another order, and others'.
PAIRED = (
    Weight("self_attn.q_proj", "attn_q", "qh", rows=paired),
    Weight("self_attn.k_proj", "attn_k", "kh", rows=paired),
    *_VALUES,
)
ATTENTION = (Weight("self_attn.q_proj", "attn_q", "qh"), Weight("self_attn.k_proj", "attn_k", "kh"), *_VALUES)
LLAMA = Architecture(
    "llama",
    "llama",
    "LlamaForCausalLM",
    DECODER,
    (*PAIRED, *GATED, *NORMS),
    biased=biases_of_llama,
    plain_positions=WITH_FACTORS,
)
QWEN2 = Architecture(
    "qwen2",
    "qwen2",
    "Qwen2ForCausalLM",
    DECODER,
    (*ATTENTION, *GATED, *NORMS),
    biased=lambda config: frozenset(_OF_ATTENTION[:3]),
)


def _qwen3_metadata(config: Mapping, file: Path) -> dict[str, object]:
    check_rules(config, {"attention_bias": False}, "qwen3", file)
    return {}


QWEN3 = Architecture(
    "qwen3",
    "qwen3",
    "Qwen3ForCausalLM",
    DECODER,
    (*ATTENTION, *GATED, *NORMS, *HEAD_NORMS),
    own_metadata=_qwen3_metadata,
)
GEMMA3 = Architecture(
    "gemma3",
    "gemma3_text",
    "Gemma3ForCausalLM",
    DECODER,
    (
        *ATTENTION,
        *GATED,
        *HEAD_NORMS,
        Weight("input_layernorm", "attn_norm", "h"),
        Weight("post_attention_layernorm", "post_attention_norm", "h"),
        Weight("pre_feedforward_layernorm", "ffn_norm", "h"),
        Weight("post_feedforward_layernorm", "post_ffw_norm", "h"),
    ),
    keys=Keys(
        own=frozenset({WINDOW, f"{WINDOW}_pattern", "final_logit_softcapping", WINDOW_THETA}),
        images=("mm.", "vision."),
    ),
    norm_offset=True,
    tied=True,
    activations=("gelu_pytorch_tanh",),
    usual_theta=1e6,
    own_metadata=gemma_metadata,
    own_config=gemma_config,
)  # fmt: skip
PHI3 = Architecture(
    "phi3",
    "phi3",
    "Phi3ForCausalLM",
    DECODER,
    (
        Weight("self_attn.qkv_proj", "attn_qkv", "ah"),
        Weight("self_attn.o_proj", "attn_output", "hq"),
        Weight("mlp.gate_up_proj", "ffn_up", "gh"),
        Weight("mlp.down_proj", "ffn_down", "hf"),
        *NORMS,
    ),
    turned_part=1.0,
    scales_positions=False,  # transformers scales Phi-3's by LongRoPE alone
)


def _gpt2_extents(config: Mapping) -> dict[str, int]:
    hidden = config["n_embd"]
    inner = config.get("n_inner") or 4 * hidden
    return {"V": config["vocab_size"], "P": config["n_positions"], "h": hidden, "q": hidden, "a": 3 * hidden,
            "f": inner, "1": 1}  # fmt: skip


_GPT2_LAYER = (
    Weight("attn.c_attn", "attn_qkv", "ah", turned=True),
    Weight("attn.c_proj", "attn_output", "hq", turned=True),
    Weight("mlp.c_fc", "ffn_up", "fh", turned=True),
    Weight("mlp.c_proj", "ffn_down", "hf", turned=True),
    Weight("ln_1", "attn_norm", "h"),
    Weight("ln_2", "ffn_norm", "h"),
)
GPT2 = Architecture(
    "gpt2",
    "gpt2",
    "GPT2LMHeadModel",
    (
        Weight("transformer.wte", "token_embd", "Vh"),
        Weight("transformer.wpe", "position_embd", "Ph", is_exact=True),
        Weight("transformer.ln_f", "output_norm", "h"),
        Weight("lm_head", "output", "Vh"),
    ),
    _GPT2_LAYER,
    layers="transformer.h",
    kinds=lambda config: one_kind({"num_hidden_layers": config["n_layer"]}),
    extents=_gpt2_extents,
    biased=lambda config: frozenset({"output_norm", *(each.theirs for each in _GPT2_LAYER)}),
    keys=Keys(
        fields=GPT2_FIELDS,
        own=frozenset({"feed_forward_length"}),
        without_effect={"attention.layer_norm_rms_epsilon": "the norms are not RMS norms"},
        has_positions=False,  # they are learned
    ),
    tied=True,
    activations=("gelu_new", "gelu_pytorch_tanh"),
)
