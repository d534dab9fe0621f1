# SPDX-License-Identifier: Apache-2.0
"""Tiny models and adapters as GGUF files, with every key that mebp.gguf reads."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from mebp.gguf.architecture import Architecture
from mebp.gguf.architectures import ARCHITECTURES, architecture_named
from mebp.gguf.container import Container, StoredTensor
from mebp.gguf.metadata import model_config
from mebp.gguf.shapes import expected_tensors
from support.gguf_files import Array, File, Tensor

HIDDEN, INNER, WORDS = 32, 64, 300
LETTERS = ["a", *(f"t{number}" for number in range(WORDS - 4))]


def decoder(name: str, **also: object) -> File:
    keys = _keys(name) | also
    architecture = architecture_named(name, name)
    shapes = {"attn_qkv": (3 * HIDDEN, HIDDEN), "ffn_gate": (INNER, HIDDEN), "ffn_down": (HIDDEN, INNER),
              "ffn_up": ((2 if name == "phi3" else 1) * INNER, HIDDEN), "attn_q_norm": (16,), "attn_k_norm": (16,),
              **dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (HIDDEN, HIDDEN))}  # fmt: skip
    tensors = [Tensor("token_embd.weight", (WORDS, HIDDEN), "Q8_0"), Tensor("output_norm.weight", (HIDDEN,))]
    names = [weight.theirs for weight in architecture.inner]
    tensors += [
        Tensor(f"blk.0.{each}.weight", shapes.get(each, (HIDDEN,)), "Q4_0" if each == "ffn_down" else "F32")
        for each in names
    ]
    if name == "gpt2":
        tensors += [Tensor("position_embd.weight", (64, HIDDEN)), Tensor("output_norm.bias", (HIDDEN,))]
    biased = {"gpt2": names, "qwen2": ["attn_q", "attn_k", "attn_v"]}.get(name, [])
    tensors += [Tensor(f"blk.0.{each}.bias", shapes.get(each, (HIDDEN,))[:1]) for each in biased]
    return File(list(keys.items()), tensors)


# By llama.cpp's names, but for a Mixtral, which is a llama there.
UNIFORM = ("gemma", "gemma2", "mixtral", "qwen2moe", "qwen3moe", "smollm3", "granite", "olmo2")
HYBRIDS = ("gemma4", "lfm2", "lfm2moe", "qwen35", "qwen35moe", "qwen3next")
_OF_EXPERTS = {"expert_count": ("u32", 3), "expert_used_count": ("u32", 2), "expert_feed_forward_length": ("u32", 8)}
_OF_LFM2 = {"attention.head_count_kv": Array("u32", [0, 2]), "shortconv.l_cache": ("u32", 3)}
_OF_QWEN = {"attention.layer_norm_rms_epsilon": ("f32", 1e-6), "full_attention_interval": ("u32", 2),
            "ssm.conv_kernel": ("u32", 4), "ssm.state_size": ("u32", 4), "ssm.group_count": ("u32", 2),
            "ssm.time_step_rank": ("u32", 6), "ssm.inner_size": ("u32", 24),
            "rope.dimension_count": ("u32", 4)}  # fmt: skip
_SECTIONS = {"rope.dimension_sections": Array("i32", [1, 1, 0, 0])}
_OF_GEMMA4 = {"attention.sliding_window": ("u32", 8), "attention.sliding_window_pattern": Array("bool", [True, False]),
              "attention.shared_kv_layers": ("u32", 0), "attention.key_length_swa": ("u32", 12),
              "attention.value_length_swa": ("u32", 12), "rope.dimension_count_swa": ("u32", 12),
              "rope.freq_base_swa": ("f32", 1e3), "embedding_length_per_layer_input": ("u32", 4)}  # fmt: skip
_OWN: dict[str, dict[str, object]] = {
    "gemma4": {**_OF_GEMMA4, **_OF_EXPERTS},
    "gemma2": {
        "attention.sliding_window": ("u32", 8),
        "attn_logit_softcapping": ("f32", 2.0),
        "final_logit_softcapping": ("f32", 3.0),
    },
    "granite": dict.fromkeys(("attention.scale", "embedding_scale", "residual_scale", "logit_scale"), ("f32", 0.5)),
    "mixtral": {"expert_count": ("u32", 3), "expert_used_count": ("u32", 2)},
    "qwen2moe": {**_OF_EXPERTS, "expert_shared_feed_forward_length": ("u32", 8)},
    "qwen3moe": _OF_EXPERTS,
    "lfm2": _OF_LFM2,
    "lfm2moe": {**_OF_LFM2, **_OF_EXPERTS, "leading_dense_block_count": ("u32", 1), "expert_gating_func": ("u32", 2)},
    "qwen35": {**_OF_QWEN, **_SECTIONS},
    "qwen35moe": {**_OF_QWEN, **_OF_EXPERTS, **_SECTIONS, "expert_shared_feed_forward_length": ("u32", 8)},
    "qwen3next": {**_OF_QWEN, **_OF_EXPERTS, "expert_shared_feed_forward_length": ("u32", 8)},
}


def architecture_called(name: str) -> Architecture:
    return ARCHITECTURES["mixtral"] if name == "mixtral" else architecture_named(name, name)


def two_layers(name: str, **also: object) -> File:
    """The second attends to all; also: keys of the architecture."""
    architecture = architecture_called(name)
    there = architecture.name
    keys = _keys(there) | {f"{there}.block_count": ("u32", 2), f"{there}.attention.sliding_window": ("u32", 0)}
    keys |= {f"{there}.{key}": value for key, value in {**_OWN.get(name, {}), **also}.items()}
    # Which tensors there are is read off the keys, as the reader does it, of a file with one in each layer.
    few = [StoredTensor("token_embd.weight", "F32", (WORDS, HIDDEN), 0, 0),
           *(StoredTensor(f"blk.{layer}.attn_norm.weight", "F32", (HIDDEN,), 0, 0) for layer in range(2))]  # fmt: skip
    is_tied = name not in ("qwen2moe", "olmo2")
    few += [] if is_tied else [StoredTensor("output.weight", "F32", (WORDS, HIDDEN), 0, 0)]
    container = Container(Path("model.gguf"), {key: _plain(value) for key, value in keys.items()}, few)
    config = {**model_config(architecture, container), "tie_word_embeddings": is_tied}
    factors = [1.0, 1.0, *[1e30] * 6]
    more = [Tensor("rope_freqs.weight", (8,), content=np.array(factors, np.float32).tobytes())] * (name == "gemma4")
    rates = {f"blk.{layer}.ssm_a": np.full(6, -1.0, np.float32).tobytes() for layer in range(2)}
    shapes = expected_tensors(architecture, config)
    return File(list(keys.items()), [*more, *(Tensor(each, shapes[each], content=rates.get(each)) for each in shapes)])


def _plain(value: object) -> object:
    return value.values if isinstance(value, Array) else value[1] if isinstance(value, tuple) else value


def _keys(name: str) -> dict[str, object]:
    return {
        "general.architecture": name,
        "general.type": "model",
        "general.name": "tiny",
        f"{name}.context_length": ("u32", 64),
        f"{name}.embedding_length": ("u32", HIDDEN),
        f"{name}.block_count": ("u32", 1),
        f"{name}.feed_forward_length": ("u32", INNER),
        f"{name}.attention.head_count": ("u32", 2),
        f"{name}.attention.head_count_kv": ("u32", 2),
        f"{name}.attention.key_length": ("u32", 16),
        f"{name}.attention.value_length": ("u32", 16),
        f"{name}.attention.layer_norm_rms_epsilon": ("f32", 1e-5),
        f"{name}.attention.layer_norm_epsilon": ("f32", 1e-5),
        f"{name}.rope.dimension_count": ("u32", 16),
        f"{name}.rope.freq_base": ("f32", 1e4),
        f"{name}.attention.sliding_window": ("u32", 32),
        f"{name}.rope.scaling.type": "none",
        f"{name}.rope.scaling.factor": ("f32", 2.0),
        f"{name}.vocab_size": ("u32", WORDS),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": Array("string", ["<s>", "</s>", *LETTERS, "t0t1"]),
        "tokenizer.ggml.token_type": Array("i32", [3, 3, *[1] * (WORDS - 2)]),
        "tokenizer.ggml.merges": Array("string", ["t0 t1"]),
        "tokenizer.ggml.bos_token_id": ("u32", 0),
        "tokenizer.ggml.eos_token_id": ("u32", 1),
        "tokenizer.ggml.unknown_token_id": ("u32", 1),
        "tokenizer.ggml.padding_token_id": ("u32", 1),
        "tokenizer.ggml.add_bos_token": ("bool", 1),
        "tokenizer.chat_template": "{{ messages }}",
        "general.alignment": ("u32", 32),
    }


_ADAPTED = (("attn_q", HIDDEN, HIDDEN), ("ffn_up", INNER, HIDDEN))


def with_factors() -> File:
    """Of positions, as Llama 3.1's: frequencies of a short context stay as they are, with a tiny head."""
    file = decoder("llama")
    factors = np.array([1.0] * 5 + [8.0] * 3, np.float32)
    return replace(file, tensors=[*file.tensors, Tensor("rope_freqs.weight", (8,), content=factors.tobytes())])


def adapter(name: str = "llama", modules: tuple[tuple[str, int, int], ...] = _ADAPTED) -> File:
    """modules: llama.cpp's names, rows and columns."""
    keys = {
        "general.architecture": name,
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": ("f32", 8.0),
        "general.alignment": ("u32", 32),
    }
    tensors = []
    for module, rows, columns in modules:
        for letter, shape in (("a", (2, columns)), ("b", (rows, 2))):
            tensors.append(Tensor(f"blk.0.{module}.weight.lora_{letter}", shape))
    return File(list(keys.items()), tensors)
