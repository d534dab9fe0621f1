# SPDX-License-Identifier: Apache-2.0
"""Tiny models and adapters as GGUF files, with every key that mebp.gguf reads."""

from dataclasses import replace

import numpy as np

from mebp.gguf.architectures import ARCHITECTURES
from support.gguf_files import Array, File, Tensor

HIDDEN, INNER, WORDS = 32, 64, 300
LETTERS = ["a", *(f"t{number}" for number in range(WORDS - 4))]


def decoder(name: str, **also: object) -> File:
    keys: dict[str, object] = {
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
        **also,
    }
    architecture = next(each for each in ARCHITECTURES.values() if each.name == name)
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


def with_factors() -> File:
    """Of positions, as Llama 3.1's: frequencies of a short context stay as they are, with a tiny head."""
    file = decoder("llama")
    factors = np.array([1.0] * 5 + [8.0] * 3, np.float32)
    return replace(file, tensors=[*file.tensors, Tensor("rope_freqs.weight", (8,), content=factors.tobytes())])


def adapter() -> File:
    keys = {
        "general.architecture": "llama",
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": ("f32", 8.0),
        "general.alignment": ("u32", 32),
    }
    tensors = []
    for module, rows, columns in [("attn_q", HIDDEN, HIDDEN), ("ffn_up", INNER, HIDDEN)]:
        for letter, shape in (("a", (2, columns)), ("b", (rows, 2))):
            tensors.append(Tensor(f"blk.0.{module}.weight.lora_{letter}", shape))
    return File(list(keys.items()), tensors)
