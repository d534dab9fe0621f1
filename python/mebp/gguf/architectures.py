# SPDX-License-Identifier: Apache-2.0
"""What llama.cpp calls the tensors of each model type, and in which order it has their rows."""

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mebp.errors import Error

_NUMBER = "(0|[1-9][0-9]{0,5})"  # of a layer
_BLOCK = re.compile(rf"blk\.{_NUMBER}\.(.+)")
_MOST_HEADS = 1 << 16


@dataclass(frozen=True)
class Architecture:
    """Modules by transformers' names and llama.cpp's.

    name: what general.architecture says.
    model_type, model_class: what transformers calls it; where several are one to llama.cpp, the plainest.
    layers: what a layer's name begins with in transformers, as in `layers`.3.`inner`.
    paired: modules whose rows llama.cpp has in pairs that are turned together, and transformers in halves.
    transposed: modules whose weights transformers keeps as [in, out].
    norm_offset: what transformers adds to the weight of a norm, and llama.cpp expects to be added already.
    tied: whether embedding and head are one where config.json does not say so.
    """

    name: str
    model_type: str
    model_class: str
    layers: str
    outer: Mapping[str, str]
    inner: Mapping[str, str]
    paired: frozenset[str] = frozenset()
    transposed: frozenset[str] = frozenset()
    norm_offset: float = 0.0
    tied: bool = False
    _inner_back: Mapping[str, str] = field(init=False, repr=False)
    _outer_back: Mapping[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_inner_back", {theirs: ours for ours, theirs in self.inner.items()})
        object.__setattr__(self, "_outer_back", {theirs: ours for ours, theirs in self.outer.items()})

    def to_gguf(self, module: str) -> str | None:
        """llama.cpp's name of a module, without .weight; None where it has none."""
        if module in self.outer:
            return self.outer[module]
        found = re.fullmatch(rf"{re.escape(self.layers)}\.{_NUMBER}\.(.+)", module)
        if found is None or found[2] not in self.inner:
            return None
        return f"blk.{found[1]}.{self.inner[found[2]]}"

    def from_gguf(self, module: str) -> str | None:
        """The other way."""
        if module in self._outer_back:
            return self._outer_back[module]
        found = _BLOCK.fullmatch(module)
        if found is None or found[2] not in self._inner_back:
            return None
        return f"{self.layers}.{found[1]}.{self._inner_back[found[2]]}"

    def row_order(self, module: str, rows: int, config: Mapping, what: str) -> np.ndarray | None:
        """Which row of transformers' is each of llama.cpp's; None where the order is the same. `what` has the module.

        llama.cpp turns neighbouring rows of a head, 2 i and 2 i + 1, by one angle; transformers rows i and i + half.
        """
        if not self.is_paired(module):
            return None
        heads = _heads(config, module.endswith("k_proj"), what)
        if rows % (2 * heads):
            raise Error(
                f"{what}: '{module}' has {rows} rows, which are not {heads} heads; use the adapter's own base model"
            )
        return np.arange(rows).reshape(heads, 2, -1).swapaxes(1, 2).reshape(-1)

    def is_paired(self, module: str) -> bool:
        return any(module.endswith(f".{name}") for name in self.paired)

    def is_transposed(self, module: str) -> bool:
        return any(module.endswith(f".{name}") for name in self.transposed)


def _heads(config: Mapping, of_keys: bool, what: str) -> int:
    field = "num_key_value_heads" if of_keys and config.get("num_key_value_heads") else "num_attention_heads"
    heads = config.get(field)
    if type(heads) is not int or not 1 <= heads <= _MOST_HEADS:
        raise Error(f"{what}: the base model's config.json lacks the number {field}; download it again")
    return heads


_ATTENTION = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
}
_GATED = {"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
_NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
_HEAD_NORMS = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
_DECODER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_LLAMA = {**_ATTENTION, **_GATED, **_NORMS}
_GEMMA_NORMS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}

_PAIRED_LLAMA = Architecture(
    "llama",
    "llama",
    "LlamaForCausalLM",
    "model.layers",
    _DECODER,
    _LLAMA,
    paired=frozenset({"self_attn.q_proj", "self_attn.k_proj"}),
)

# By transformers' model type. Each is compared by logits in llama.cpp (test/e2e/test_gguf_base.py).
ARCHITECTURES: dict[str, Architecture] = {
    "llama": _PAIRED_LLAMA,
    "mistral": _PAIRED_LLAMA,
    "qwen2": Architecture("qwen2", "qwen2", "Qwen2ForCausalLM", "model.layers", _DECODER, _LLAMA),
    "qwen3": Architecture("qwen3", "qwen3", "Qwen3ForCausalLM", "model.layers", _DECODER, {**_LLAMA, **_HEAD_NORMS}),
    "gemma3_text": Architecture(
        "gemma3",
        "gemma3_text",
        "Gemma3ForCausalLM",
        "model.layers",
        _DECODER,
        {**_ATTENTION, **_GATED, **_HEAD_NORMS, **_GEMMA_NORMS},
        norm_offset=1.0,
        tied=True,
    ),
    "phi3": Architecture(
        "phi3",
        "phi3",
        "Phi3ForCausalLM",
        "model.layers",
        _DECODER,
        {
            "self_attn.qkv_proj": "attn_qkv",
            "self_attn.o_proj": "attn_output",
            "mlp.gate_up_proj": "ffn_up",
            "mlp.down_proj": "ffn_down",
            **_NORMS,
        },
    ),
    "gpt2": Architecture(
        "gpt2",
        "gpt2",
        "GPT2LMHeadModel",
        "transformer.h",
        {
            "transformer.wte": "token_embd",
            "transformer.wpe": "position_embd",
            "transformer.ln_f": "output_norm",
            "lm_head": "output",
        },
        {
            "attn.c_attn": "attn_qkv",
            "attn.c_proj": "attn_output",
            "mlp.c_fc": "ffn_up",
            "mlp.c_proj": "ffn_down",
            "ln_1": "attn_norm",
            "ln_2": "ffn_norm",
        },
        transposed=frozenset({"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}),
        tied=True,
    ),
}


def architecture_of(model_type: object, what: str) -> Architecture:
    """Raises mebp.Error, about `what`, for a model type that is not in the table."""
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise Error(f"{what}: model type {_shown(model_type)} cannot be written as GGUF here; there is {known}")
    return ARCHITECTURES[model_type]


def architecture_named(name: object, what: str) -> Architecture:
    """By what general.architecture says."""
    for architecture in ARCHITECTURES.values():
        if architecture.name == name:
            return architecture
    known = ", ".join(sorted({each.name for each in ARCHITECTURES.values()}))
    raise Error(f"{what}: architecture {_shown(name)} is not one that can be read here; there is {known}")


def _shown(value: object) -> str:
    return f"'{value[:60]}'" if isinstance(value, str) else reprlib.repr(value)
