# SPDX-License-Identifier: Apache-2.0
"""A model's config.json as llama.cpp's keys, and back."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mebp.errors import Error
from mebp.gguf.architectures import Architecture
from mebp.gguf.container import Container

_ADVICE = "write a folder for transformers instead (-o DIR)"
_DECODER = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}
_EMBEDDING = "token_embd.weight"
_WIDEST_HEAD = 1 << 16
_DAMAGED = "download it again"
_GPT2 = {
    "context_length": "n_positions",
    "embedding_length": "n_embd",
    "block_count": "n_layer",
    "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
}
# llama.cpp computes these activations and no others, and has no field to say another.
_ACTIVATIONS = {"gpt2": ("gelu_new", "gelu_pytorch_tanh"), "gemma3": ("gelu_pytorch_tanh",)}
_GEMMA_LOCAL_THETA = 10_000.0
_GEMMA_PERIOD = 6  # every sixth layer attends to all, as in every published Gemma 3


def model_metadata(architecture: Architecture, config: Mapping, file: Path) -> dict[str, int | float]:
    """llama.cpp's keys without the architecture's name before them; raises mebp.Error, about the config.json `file`,
    for what llama.cpp would compute otherwise."""
    names = _GPT2 if architecture.name == "gpt2" else _DECODER
    for field in [*names.values(), "vocab_size"]:
        if not isinstance(config.get(field), int | float) or isinstance(config[field], bool):
            raise Error(f"{file}: lacks the number '{field}'; export and compile the model again")
    _check_activation(architecture, config, file)
    found = {key: config[field] for key, field in names.items()}
    found["vocab_size"] = config["vocab_size"]
    if architecture.name == "gpt2":
        return {**found, "feed_forward_length": config.get("n_inner") or 4 * config["n_embd"]}
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    turned = width * config.get("partial_rotary_factor", _rope(config).get("partial_rotary_factor", 1.0))
    found |= {
        "attention.head_count_kv": config.get("num_key_value_heads") or heads,
        "attention.key_length": width,
        "attention.value_length": width,
        "rope.dimension_count": int(turned),
    }
    return found | _rope_metadata(config, file) | _window(architecture, config, file)


def model_config(architecture: Architecture, container: Container) -> dict[str, object]:
    """The fields of config.json that the file's keys say, and its tensors; the other way of model_metadata."""

    name = architecture.name

    def whole(key: str, needed: bool = False) -> int | None:
        return container.whole(f"{name}.{key}", least=1, needed=needed)

    def number(key: str) -> float | int:
        is_real = key.endswith("epsilon")
        return container.real(f"{name}.{key}", 0.0, needed=True) if is_real else whole(key, needed=True)

    shapes = {tensor.name: tensor.shape for tensor in container.tensors}
    rows, columns = _embedding(container, shapes)
    names = _GPT2 if name == "gpt2" else _DECODER
    found: dict[str, object] = {field: number(key) for key, field in names.items()}
    found |= {
        "model_type": architecture.model_type,
        "vocab_size": rows,
        "tie_word_embeddings": "output.weight" not in shapes,
        **{f"{ours}_token_id": container.whole(f"tokenizer.ggml.{theirs}_token_id", most=rows - 1)
           for ours, theirs in [("bos", "bos"), ("eos", "eos"), ("pad", "padding")]},
    }  # fmt: skip
    if found[names["embedding_length"]] != columns:
        raise Error(f"{container.path}: '{name}.embedding_length' is {found[names['embedding_length']]}, and tensor "
                    f"'{_EMBEDDING}' has rows of {columns}; {_DAMAGED}")  # fmt: skip
    _check_blocks(container, f"{name}.block_count", found[names["block_count"]], shapes)
    if name == "gpt2":
        return {**found, "n_inner": whole("feed_forward_length")}
    heads = found["num_attention_heads"]
    turned = whole("rope.dimension_count")
    width = whole("attention.key_length") or turned or columns // heads
    if not 0 < width <= _WIDEST_HEAD or (turned or 0) > width:
        raise Error(f"{container.path}: '{name}.attention.key_length' and '{name}.rope.dimension_count' make heads of "
                    f"{width} with positions in {turned or width}, which cannot be; {_DAMAGED}")  # fmt: skip
    theta = container.real(f"{name}.rope.freq_base", 1.0)
    rope: dict[str, object] = {"rope_type": "default", "rope_theta": 10_000.0 if theta is None else theta}
    if container.text(f"{name}.rope.scaling.type") == "linear":
        rope |= {"rope_type": "linear", "factor": container.real(f"{name}.rope.scaling.factor", 1.0, needed=True)}
    if turned and turned != width:
        found["partial_rotary_factor"] = turned / width
    found |= {
        "head_dim": width,
        "num_key_value_heads": whole("attention.head_count_kv") or heads,
        "attention_bias": "blk.0.attn_q.bias" in shapes,
        "mlp_bias": "blk.0.ffn_up.bias" in shapes,
        "sliding_window": container.whole(f"{name}.attention.sliding_window") or None,  # 0: none
        "rope_parameters": rope,
        "rope_theta": rope["rope_theta"],  # where others than transformers look, MLX-LM among them
    }
    return found | _gemma_layers(found) if name == "gemma3" else found


def _embedding(container: Container, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, int]:
    """Its rows and columns."""
    shape = shapes.get(_EMBEDDING, ())
    if len(shape) != 2:
        raise Error(f"{container.path}: has no matrix '{_EMBEDDING}'; give the file of a whole model")
    return shape


def _check_blocks(container: Container, key: str, count: int, shapes: Mapping[str, tuple[int, ...]]) -> None:
    numbers = {name.split(".", 2)[1] for name in shapes if name.startswith("blk.")}
    if len(numbers) != count or numbers != set(map(str, range(count))):
        raise Error(f"{container.path}: '{key}' is {count}, and the file has tensors of {len(numbers)} layers; "
                    "give a file with the whole model")  # fmt: skip


def _gemma_layers(config: Mapping) -> dict[str, object]:
    local = {"rope_type": "default", "rope_theta": _GEMMA_LOCAL_THETA}
    return {
        "layer_types": _gemma_order(config["num_hidden_layers"]),
        "query_pre_attn_scalar": config["head_dim"],
        "rope_parameters": {"full_attention": config["rope_parameters"], "sliding_attention": local},
    }


def _gemma_order(count: int) -> list[str]:
    return ["sliding_attention" if number % _GEMMA_PERIOD else "full_attention" for number in range(1, count + 1)]


def rope_factors(config: Mapping) -> np.ndarray | None:
    """What llama.cpp divides each frequency by, float32 [half a head]; None where all are one. Of Llama 3.1 and later
    (transformers.modeling_rope_utils)."""
    rope = _rope(config)
    if rope.get("rope_type", rope.get("type")) != "llama3":
        return None
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    frequencies = _theta(config) ** -(np.arange(0, width, 2, dtype=np.float64) / width)
    turns = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    share = np.clip((turns - low) / (high - low), 0, 1)  # 1: turns often enough to stay as it is
    return (1 / (share + (1 - share) / factor)).astype(np.float32)


def _rope(config: Mapping) -> Mapping:
    found = config.get("rope_parameters") or config.get("rope_scaling") or {}
    # A Gemma has one for each kind of layer.
    return found.get("full_attention", found)


def _theta(config: Mapping) -> float:
    return float(_rope(config).get("rope_theta") or config.get("rope_theta") or 10_000.0)


def _rope_metadata(config: Mapping, file: Path) -> dict[str, float | str]:
    rope = _rope(config)
    kind = rope.get("rope_type", rope.get("type", "default"))
    found: dict[str, float | str] = {"rope.freq_base": _theta(config)}
    if kind == "linear":
        found |= {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope["factor"])}
    elif kind not in ("default", "llama3"):
        raise Error(f"{file}: has positions of type '{kind}', which cannot be written as GGUF here; {_ADVICE}")
    return found


def _window(architecture: Architecture, config: Mapping, file: Path) -> dict[str, int]:
    window = config.get("sliding_window")
    if architecture.name == "gemma3":
        kinds = config.get("layer_types") or []
        width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        if kinds != _gemma_order(len(kinds)) or config.get("query_pre_attn_scalar", width) != width:
            raise Error(f"{file}: has other layers than Gemma 3 was published with; {_ADVICE}")
        return {"attention.sliding_window": window}
    if window and config.get("use_sliding_window", True) and window < config["max_position_embeddings"]:
        raise Error(f"{file}: has a sliding window, which llama.cpp ignores in '{architecture.name}'; {_ADVICE}")
    return {}


def _check_activation(architecture: Architecture, config: Mapping, file: Path) -> None:
    field = next(
        (field for field in ("hidden_activation", "activation_function", "hidden_act") if config.get(field)), ""
    )
    allowed = _ACTIVATIONS.get(architecture.name, ("silu", "swish"))
    if config.get(field, allowed[0]) not in allowed:
        raise Error(f"{file}: has the activation '{config[field]}', and llama.cpp computes {allowed[0]} in "
                    f"'{architecture.name}'; {_ADVICE}")  # fmt: skip
