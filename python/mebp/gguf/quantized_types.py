# SPDX-License-Identifier: Apache-2.0
"""The type of each tensor in a quantised file: what llama.cpp's llama_model_quantize makes of the file in f32.

A file's type has a type for most matrices. Some take more bits: the head, or an embedding that is tied to it; values
and the second layers of feed-forward networks, in layers that are chosen by their number; and more of a mixture of
eight experts. Where blocks do not divide a row, another type stands in.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mebp.gguf import GGUF_TYPES

_HEAD, _EMBEDDING = "output.weight", "embedding"
_VALUES, _KEYS, _ATTENDED, _SECOND, _OTHER = "values", "keys", "attended", "second", "other"
# What a tensor is: the first of these parts that its name has.
_CATEGORIES = {
    "token_embd.weight": _EMBEDDING,  # that of each layer, too
    "attn_qkv.weight": _VALUES,
    "attn_kv_b.weight": _VALUES,
    "attn_v.weight": _VALUES,
    "attn_k.weight": _KEYS,
    "attn_output.weight": _ATTENDED,
    "ffn_down": _SECOND,
}
# What stays as it is, by parts of names: it is small, and much depends on it.
_LEFT = ("_norm.weight", "ffn_gate_inp.weight", "altup", "laurel", "per_layer_model_proj", "position_embd",
         "ssm_conv1d", "shortconv.conv.weight")  # fmt: skip
_STAND_IN = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
_WITH_MORE = ("q4_k_m", "q5_k_m")
_EIGHT = 8
_70B_LAYERS = 80


@dataclass(frozen=True)
class Sizes:
    """Of the model. layers: of all. experts: 0 where there are none. is_70b: whether llama.cpp takes it for one, by its
    number of layers."""

    layers: int
    experts: int = 0
    is_70b: bool = False

    @classmethod
    def of(cls, architecture: str, metadata: Mapping[str, object]) -> "Sizes":
        """By the keys of a file, without the architecture's name before them."""
        layers, experts = metadata["block_count"], metadata.get("expert_count", 0)
        assert isinstance(layers, int) and isinstance(experts, int)
        shares_keys = metadata.get("attention.head_count") != metadata.get("attention.head_count_kv")
        is_70b = layers == _70B_LAYERS and (architecture == "qwen2" or (architecture == "llama" and shares_keys))
        return cls(layers, experts, is_70b)


def quantized_types(dtype: str, shapes: Mapping[str, tuple[int, ...]], sizes: Sizes) -> dict[str, str]:
    """ggml's names of the types of tensors with these shapes, by llama.cpp's names. dtype: a quantised one, as options
    call it."""
    usual = GGUF_TYPES[dtype][0]
    is_tied = _HEAD not in shapes
    value_count = sum(_category(name) == _VALUES for name in shapes)
    found, values, seconds = {}, 0, 0  # how many went before
    for name in sorted(shapes, key=lambda name: (_layer(name), name)):
        if not _takes_codes(name, shapes[name]):
            found[name] = "F32"
            continue
        kind, category, columns = usual, _category(name), shapes[name][-1]
        if category == _HEAD or (is_tied and category == _EMBEDDING):
            kind = "Q8_0" if usual == "Q8_0" or columns % block_of(usual) else "Q6_K"
        elif category == _VALUES:
            kind = _of_values(dtype, values, value_count, sizes)
            values += 1
        elif category == _SECOND:
            kind = _of_second(dtype, _layer(name) if sizes.experts > 1 else seconds, sizes.layers)
            seconds += 1
        elif category == _KEYS and sizes.experts == _EIGHT:
            kind = "Q8_0"
        elif category == _ATTENDED and sizes.experts == _EIGHT and usual == "Q4_K":
            kind = "Q5_K"
        found[name] = _that_fits(kind, columns)
    return found


def is_quantized(kind: str) -> bool:
    """Whether ggml's type of this name has blocks of codes."""
    return kind.startswith("Q")


def block_of(kind: str) -> int:
    """How many numbers of a row share a block of a quantised type."""
    return 256 if kind.endswith("_K") else 32


def _category(name: str) -> str:
    return name if name == _HEAD else next((what for part, what in _CATEGORIES.items() if part in name), _OTHER)


def _takes_codes(name: str, shape: tuple[int, ...]) -> bool:
    is_matrix = any(extent > 1 for extent in shape[:-1])
    return is_matrix and name.endswith("weight") and not any(part in name for part in _LEFT)


def _of_values(dtype: str, number: int, count: int, sizes: Sizes) -> str:
    if sizes.experts == _EIGHT:
        return "Q8_0"
    if dtype in _WITH_MORE and _takes_more(number, count):
        return "Q6_K"
    usual = GGUF_TYPES[dtype][0]
    return "Q5_K" if usual == "Q4_K" and (sizes.is_70b or (dtype == "q4_k_s" and number < 4)) else usual


def _of_second(dtype: str, number: int, count: int) -> str:
    if dtype in _WITH_MORE and _takes_more(number, count):
        return "Q6_K"
    return "Q5_K" if dtype == "q4_k_s" and number < count // 8 else GGUF_TYPES[dtype][0]


def _takes_more(number: int, count: int) -> bool:
    """In the first and the last eighth, and each third between them."""
    return number < count // 8 or number >= 7 * count // 8 or (number - count // 8) % 3 == 2


def _that_fits(kind: str, columns: int) -> str:
    """llama.cpp refuses rows that 32 does not divide where the file's type has blocks of 32; here they are f16, too."""
    if columns % block_of(kind):
        kind = _STAND_IN.get(kind, "F16")
    return "F16" if kind != "F16" and columns % block_of(kind) else kind


def _layer(name: str) -> int:
    found = re.match(r"blk\.(\d+)\.", name)
    return int(found[1]) if found else -1
