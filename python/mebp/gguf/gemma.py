# SPDX-License-Identifier: Apache-2.0
"""What llama.cpp computes in Gemma 3 alone: layers with a window, their positions, and the rules by a model's size."""

from collections.abc import Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.gguf import READ_ADVICE, WRITE_ADVICE
from mebp.gguf.container import Container
from mebp.gguf.positions import rope_metadata

_LOCAL_THETA = 10_000.0
_PERIOD = 6  # every sixth layer attends to all
_USUAL_SCALAR, _USUAL_WINDOW = 256, 4096  # of transformers' Gemma3TextConfig
_LARGEST_LAYERS = 62  # of 27B, whose scores llama.cpp divides by another width


def gemma_config(container: Container, config: Mapping) -> dict[str, object]:
    """The fields of config.json that only this architecture has."""
    count = config["num_hidden_layers"]
    window = container.whole("gemma3.attention.sliding_window") or None
    period = container.whole("gemma3.attention.sliding_window_pattern")
    if window and period == 1:
        raise Error(f"{container.path}: 'gemma3.attention.sliding_window_pattern' is 1, which llama.cpp cannot "
                    f"compute; {READ_ADVICE}")  # fmt: skip
    kinds = layer_order(count, _PERIOD if period is None else period) if window else ["full_attention"] * count
    theta = container.real("gemma3.rope.freq_base_swa", 1.0)
    local = {"rope_type": "default", "rope_theta": _LOCAL_THETA if theta is None else theta}
    return {
        "sliding_window": window or config["max_position_embeddings"],  # transformers wants one, used or not
        "layer_types": kinds,
        "query_pre_attn_scalar": score_scalar(config, config["head_dim"], _LARGEST_LAYERS),
        "rope_parameters": {"full_attention": config["rope_parameters"], "sliding_attention": local},
        "final_logit_softcapping": container.real("gemma3.final_logit_softcapping", 0.0) or None,
    }


def gemma_metadata(config: Mapping, file: Path) -> dict[str, float | int]:
    """The other way; raises mebp.Error, about the config.json `file`, for what llama.cpp would compute otherwise."""
    count, heads = config["num_hidden_layers"], config["num_attention_heads"]
    kinds = config.get("layer_types") or layer_order(count, config.get("sliding_window_pattern") or _PERIOD)
    windowed = "sliding_attention" in kinds
    period = next((each for each in (_PERIOD, *range(count + 2)) if kinds == layer_order(count, each)), None)
    if windowed and period is None:
        raise Error(f"{file}: has layers with a window in an order that llama.cpp does not know; {WRITE_ADVICE}")
    width = config.get("head_dim") or config["hidden_size"] // heads
    scalar = score_scalar(config, width, _LARGEST_LAYERS)
    found_scalar = config.get("query_pre_attn_scalar", _USUAL_SCALAR)
    if found_scalar != scalar:
        raise Error(f"{file}: has query_pre_attn_scalar {found_scalar}, and llama.cpp computes {scalar} in 'gemma3'; "
                    f"{WRITE_ADVICE}")  # fmt: skip
    if windowed and "rope.scaling.attn_factor" in rope_metadata(config, file):
        raise Error(f"{file}: has an attention_factor of its own in its positions, which llama.cpp computes in layers "
                    f"with a window, too; {WRITE_ADVICE}")  # fmt: skip
    for field in ("attn_logit_softcapping", "use_bidirectional_attention", "attention_bias"):
        if config.get(field):
            raise Error(f"{file}: has {field}, which llama.cpp does not compute in 'gemma3'; {WRITE_ADVICE}")
    found: dict[str, float | int] = {
        "attention.sliding_window": (config.get("sliding_window") or _USUAL_WINDOW) if windowed else 0
    }
    if windowed and period != _PERIOD:
        found["attention.sliding_window_pattern"] = period
    if config.get("final_logit_softcapping"):
        found["final_logit_softcapping"] = float(config["final_logit_softcapping"])
    return found | (_local_positions(config, file) if windowed else {})


def _local_positions(config: Mapping, file: Path) -> dict[str, float]:
    rope = config.get("rope_parameters") or {}
    local = rope.get("sliding_attention") or {}
    if local.get("rope_type", "default") != "default":
        raise Error(f"{file}: has positions of type '{local['rope_type']}' in layers with a window, where llama.cpp "
                    f"scales none; {WRITE_ADVICE}")  # fmt: skip
    # Older files have a field of its own.
    theta = local.get("rope_theta") or config.get("rope_local_base_freq") or _LOCAL_THETA
    return {} if float(theta) == _LOCAL_THETA else {"rope.freq_base_swa": float(theta)}


def score_scalar(config: Mapping, width: int, largest: int) -> int:
    """By whose root llama.cpp divides the scores: of a model with so many layers as the largest of its generation it is
    not the head's width."""
    return config["hidden_size"] // config["num_attention_heads"] if config["num_hidden_layers"] == largest else width


def layer_order(count: int, period: int) -> list[str]:
    """The last layer of each period attends to all; 0: each layer has a window."""
    return ["sliding_attention" if not period or number % period < period - 1 else "full_attention"
            for number in range(count)]  # fmt: skip
