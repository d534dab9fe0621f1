# SPDX-License-Identifier: Apache-2.0
"""Rotary positions and their scaling: config.json's rope_parameters as llama.cpp's keys, and back."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mebp.errors import Error
from mebp.gguf import READ_ADVICE, ROPE_FACTORS, WRITE_ADVICE
from mebp.gguf.container import Container

# Of Llama 3.1 and later; only the factor differs, and the file has what comes of it.
_LLAMA3 = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_KINDS = ("none", "linear", "yarn")
# llama.cpp computes these of YaRN whatever a file says.
_YARN = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}
THETA = 10_000.0  # where config.json has none, in most architectures


def rope_of(config: Mapping) -> Mapping:
    found = config.get("rope_parameters") or config.get("rope_scaling") or {}
    # A Gemma has one for each kind of layer.
    return found.get("full_attention", found)


def rope_metadata(
    config: Mapping, file: Path, usual_theta: float = THETA, plain: tuple[str, ...] = ("default",)
) -> dict[str, float | str | int]:
    """llama.cpp's keys, of which kinds in `plain` need none; raises mebp.Error, about the config.json `file`, for what
    llama.cpp would compute otherwise."""
    rope = rope_of(config)
    kind = rope.get("rope_type", rope.get("type", "default"))
    found: dict[str, float | str | int] = {"rope.freq_base": _theta(config, usual_theta)}
    if kind in plain:
        return found
    if kind == "linear":
        return found | {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope["factor"])}
    if kind == "yarn":
        return found | _yarn_metadata(config, rope, file)
    raise Error(f"{file}: has positions of type '{kind}', which cannot be written as GGUF here; {WRITE_ADVICE}")


def _yarn_metadata(config: Mapping, rope: Mapping, file: Path) -> dict[str, float | str | int]:
    factor = float(rope["factor"])
    original = rope.get("original_max_position_embeddings") or config["max_position_embeddings"]
    for field, value in _YARN.items():
        if rope.get(field) not in (None, value):
            raise Error(f"{file}: has {field} {rope[field]} in its positions, and llama.cpp computes {value}; "
                        f"{WRITE_ADVICE}")  # fmt: skip
    found = {"rope.scaling.type": "yarn", "rope.scaling.factor": factor,
             "rope.scaling.original_context_length": int(original)}  # fmt: skip
    wanted = rope.get("attention_factor")
    if wanted is None and rope.get("mscale") and rope.get("mscale_all_dim"):
        wanted = _attention_factor(factor, rope["mscale"]) / _attention_factor(factor, rope["mscale_all_dim"])
    if wanted is not None and not math.isclose(wanted, _attention_factor(factor), rel_tol=1e-6):
        found["rope.scaling.attn_factor"] = wanted / _attention_factor(factor)
    return found


def _attention_factor(factor: float, scale: float = 1.0) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def read_rope(container: Container, name: str, context: int, is_scaled_at_all: bool, has_local: bool) -> dict:
    """rope_parameters of the keys of architecture `name`, as llama.cpp understands them; context: its length.

    is_scaled_at_all: whether transformers scales its positions so. has_local: whether layers with a window have
    positions of their own, where llama.cpp has YaRN's factor of the attention, too.
    """
    theta = container.real(f"{name}.rope.freq_base", 1.0)
    plain: dict[str, object] = {"rope_type": "default", "rope_theta": THETA if theta is None else theta}
    kind_key, attention_key = f"{name}.rope.scaling.type", f"{name}.rope.scaling.attn_factor"
    kind = container.text(kind_key)
    if kind is None:
        kind = "linear"  # files of 2023 have a factor alone
    if kind not in _KINDS:
        raise Error(f"{container.path}: '{kind_key}' is '{kind[:60]}', and {', '.join(_KINDS)} can be read here; "
                    f"{READ_ADVICE}")  # fmt: skip
    factor_key, factor = _factor(container, name)
    is_scaled = kind != "none" and factor != 1
    if is_scaled and not is_scaled_at_all:
        raise Error(f"{container.path}: '{factor_key}' is {factor:g}, and positions that are scaled cannot be read in "
                    f"'{name}'; {READ_ADVICE}")  # fmt: skip
    attention = container.real(attention_key, 0.0)
    if attention is not None and attention != 1:
        if kind != "yarn" or not is_scaled:
            raise Error(f"{container.path}: '{attention_key}' is {attention:g} without YaRN, which cannot be read "
                        f"here; {READ_ADVICE}")  # fmt: skip
        if has_local:
            raise Error(f"{container.path}: '{attention_key}' is {attention:g}, and only 1 can be read in '{name}'; "
                        f"{READ_ADVICE}")  # fmt: skip
        plain["attention_factor"] = attention * _attention_factor(factor)
    if is_scaled:
        plain |= {"rope_type": kind, "factor": factor}
    if is_scaled and kind == "yarn":
        if plain["rope_theta"] == 1:
            raise Error(f"{container.path}: '{name}.rope.freq_base' is 1, which YaRN cannot scale; download it again")
        original = container.whole(f"{name}.rope.scaling.original_context_length")
        plain["original_max_position_embeddings"] = original or context
    return plain


def _factor(container: Container, name: str) -> tuple[str, float]:
    """With its key. The old key counts where the new one is missing; 0 is none."""
    keys = [f"{name}.rope.scaling.factor", f"{name}.rope.scale_linear"]
    for key in keys:
        found = container.real(key, 0.0)
        if found is not None:
            if 0 < found < 1:
                raise Error(f"{container.path}: '{key}' is {found:g}, and only 0 and numbers from 1 on can be read "
                            f"here; {READ_ADVICE}")  # fmt: skip
            return key, found or 1.0
    return keys[0], 1.0


def read_factors(container: Container, config: dict) -> None:
    """The file has the factors of Llama 3 themselves, and transformers what they are made of."""
    found = next((tensor for tensor in container.tensors if tensor.name == ROPE_FACTORS), None)
    if found is None:
        return
    factors, rope = container.values(found), config.get("rope_parameters", {})
    expected = None
    plain = container.text("general.architecture") == "llama" and rope.get("rope_type") == "default"
    if plain and factors.shape == (-(-config["head_dim"] // 2),) and factors.min() >= 1:
        rope |= {**_LLAMA3, "factor": float(factors.max())}
        expected = rope_factors(config)
    if expected is None or not np.allclose(factors, expected, rtol=1e-5):
        raise Error(f"{container.path}: has factors of positions ({ROPE_FACTORS}) that are not those of Llama 3; "
                    f"{READ_ADVICE}")  # fmt: skip


def rope_factors(config: Mapping) -> np.ndarray | None:
    """What llama.cpp divides each frequency by, float32 [half a head]; None where all are one. Of Llama 3.1 and later
    (transformers.modeling_rope_utils)."""
    rope = rope_of(config)
    if rope.get("rope_type", rope.get("type")) != "llama3":
        return None
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    frequencies = _theta(config, THETA) ** -(np.arange(0, width, 2, dtype=np.float64) / width)
    turns = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    share = np.clip((turns - low) / (high - low), 0, 1)  # 1: turns often enough to stay as it is
    return (1 / (share + (1 - share) / factor)).astype(np.float32)


def _theta(config: Mapping, usual: float) -> float:
    return float(rope_of(config).get("rope_theta") or config.get("rope_theta") or usual)
