# SPDX-License-Identifier: Apache-2.0
"""Gemma 4's config.json as llama.cpp's keys, and back, in what only this architecture has."""

from collections.abc import Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.gguf import READ_ADVICE, WRITE_ADVICE
from mebp.gguf.architecture import WINDOW
from mebp.gguf.container import Container
from mebp.gguf.experts import check_rules

_WINDOWED, _FULL = "sliding_attention", "full_attention"
_PERIOD, _FULL_WIDTH = 6, 512  # of transformers' Gemma4TextConfig
_LOCAL_THETA = 10_000.0
_DAMAGED = "download it again"
_SUPPRESSED = "tokenizer.ggml.suppress_tokens"

KEY_HEADS, _INNER, _INPUTS = "attention.head_count_kv", "feed_forward_length", "embedding_length_per_layer_input"
_PATTERN, _SHARED, _CAP = f"{WINDOW}_pattern", "attention.shared_kv_layers", "final_logit_softcapping"
_WIDTHS = ("attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa")
_THETA = "rope.freq_base_swa"
_EXPERTS = {"expert_count": "num_experts", "expert_used_count": "top_k_experts",
            "expert_feed_forward_length": "moe_intermediate_size"}  # fmt: skip
OWN_KEYS = frozenset({_INNER, _INPUTS, _PATTERN, _SHARED, _CAP, *_WIDTHS, _THETA, *_EXPERTS})


def sharing_from(config: Mapping) -> int:
    """The first layer that reads an earlier one's keys and values."""
    return config["num_hidden_layers"] - (config.get("num_kv_shared_layers") or 0)


def of_full(config: Mapping) -> tuple[int, int]:
    """How wide a head is, and how many key heads there are, in layers that attend to all."""
    first = str(config["layer_types"].index(_FULL)) if config.get("layer_types") else ""
    of_layers = config.get("per_layer_config") or {}
    if of_layers:
        own = of_layers.get(first) or {}
        return own.get("head_dim", config["head_dim"]), own.get("num_key_value_heads", config["num_key_value_heads"])
    keys = config.get("num_global_key_value_heads") if config.get("attention_k_eq_v") else None
    return config.get("global_head_dim") or _FULL_WIDTH, keys or config["num_key_value_heads"]


def gemma4_metadata(config: Mapping, file: Path) -> dict[str, object]:
    """Raises mebp.Error, about the config.json `file`, for what llama.cpp would compute otherwise."""
    count, shared = config["num_hidden_layers"], int(config.get("num_kv_shared_layers") or 0)
    kinds = config.get("layer_types") or [_FULL if (each + 1) % _PERIOD == 0 else _WINDOWED for each in range(count)]
    config = {**config, "layer_types": kinds}
    if len(kinds) != count or {*kinds} != {_WINDOWED, _FULL} or kinds[-1] != _FULL:
        raise Error(f"{file}: has layer_types that llama.cpp does not know in 'gemma4'; {WRITE_ADVICE}")
    check_rules(config, {"attention_bias": False}, "gemma4", file)
    if config.get("use_bidirectional_attention") == "all":
        check_rules(config, {"use_bidirectional_attention": None}, "gemma4", file)
    if not _reads_the_last(kinds, shared):
        raise Error(f"{file}: has layers that share the keys of others ({shared}) than llama.cpp takes; {WRITE_ADVICE}")
    _check_layers(config, file)
    inputs, words = int(config["hidden_size_per_layer_input"]), config["vocab_size"]
    if inputs and config["vocab_size_per_layer_input"] != words:
        raise Error(f"{file}: has inputs of layers for {config['vocab_size_per_layer_input']} words, and llama.cpp "
                    f"wants them for all {words}; {WRITE_ADVICE}")  # fmt: skip
    width, (full_width, full_keys) = config["head_dim"], of_full(config)
    keys, inner = config["num_key_value_heads"], config["intermediate_size"]
    found: dict[str, object] = {
        "attention.key_length": full_width,
        "attention.value_length": full_width,
        "rope.dimension_count": full_width,
        **dict.fromkeys(_WIDTHS, width),
        KEY_HEADS: keys if full_keys == keys else [full_keys if kind == _FULL else keys for kind in kinds],
        _INNER: inner,
        _INPUTS: inputs,
        _SHARED: shared,
        _PATTERN: [kind == _WINDOWED for kind in kinds],
        WINDOW: int(config["sliding_window"]),
        _THETA: _local_theta(config, file),
    }
    if config.get("use_double_wide_mlp") and shared:
        found[_INNER] = [inner * (2 if number >= count - shared else 1) for number in range(count)]
    if config.get("enable_moe_block"):
        for key, field in _EXPERTS.items():
            if not config.get(field):
                raise Error(f"{file}: lacks the number '{field}'; export and compile the model again")
            found[key] = config[field]
    if config.get("final_logit_softcapping"):
        found[_CAP] = float(config["final_logit_softcapping"])
    return found


def _reads_the_last(kinds: list[str], shared: int) -> bool:
    """Whether the layers before the shared ones are one with a window and one that attends to all, from which llama.cpp
    takes keys; transformers takes them from the last of each kind."""
    first = len(kinds) - shared
    return not shared or (shared < len(kinds) - 1 and all(
        kinds[first - (2 if kind == _WINDOWED else 1)] == kind
        and (kind == _FULL or kinds[first - 1] != kind)
        for kind in {*kinds[first:]}
    ))  # fmt: skip


def _check_layers(config: Mapping, file: Path) -> None:
    """That sizes differ between the two kinds of layers alone, and only as config.json can say in fields, too."""
    of_layers, kinds = config.get("per_layer_config") or {}, config["layer_types"]
    full = {str(number) for number, kind in enumerate(kinds) if kind == _FULL}
    every = [of_layers.get(number) for number in sorted(full)]
    is_usual = not of_layers or (of_layers.keys() == full and all(each == every[0] for each in every)
                                 and every[0].keys() <= {"head_dim", "num_key_value_heads"})  # fmt: skip
    _, keys = of_full(config)
    if not is_usual or (keys != config["num_key_value_heads"] and not config.get("attention_k_eq_v")):
        raise Error(f"{file}: has layers of other sizes than Gemma 4's, which cannot be written as GGUF here; "
                    f"{WRITE_ADVICE}")  # fmt: skip


def _local_theta(config: Mapping, file: Path) -> float:
    rope = config.get("rope_parameters") or {}
    local, full = rope.get(_WINDOWED) or {}, rope.get(_FULL) or {}
    if local.get("rope_type", "default") != "default" or (full.get("factor") or 1) != 1:
        raise Error(f"{file}: has positions that are scaled, which llama.cpp does not compute in 'gemma4'; "
                    f"{WRITE_ADVICE}")  # fmt: skip
    return float(local.get("rope_theta") or _LOCAL_THETA)


def gemma4_config(container: Container, config: dict) -> dict[str, object]:
    """The other way; `config` has what all architectures have."""
    count, shapes = config["num_hidden_layers"], {tensor.name for tensor in container.tensors}
    if container.metadata.get(_SUPPRESSED):
        raise Error(f"{container.path}: has the key '{_SUPPRESSED}', which cannot be read here; {READ_ADVICE}")

    def whole(key: str, least: int = 1) -> int:
        return container.whole(f"gemma4.{key}", least=least, needed=True)

    pattern = container.flags(f"gemma4.{_PATTERN}", needed=True)
    kinds = [_WINDOWED if has_window else _FULL for has_window in pattern]
    if len(kinds) != count or kinds[-1] != _FULL or _WINDOWED not in kinds:
        raise Error(f"{container.path}: 'gemma4.{_PATTERN}' is {str(pattern)[:60]}, which is not true for some of "
                    f"{count} layers and false for the last; {READ_ADVICE}")  # fmt: skip
    shared = container.whole(f"gemma4.{_SHARED}", most=count) or 0
    if not _reads_the_last(kinds, shared):
        raise Error(f"{container.path}: 'gemma4.{_SHARED}' is {shared}, with which layers share the keys of others "
                    f"than in transformers; {READ_ADVICE}")  # fmt: skip
    widths = {key: whole(key) for key in _WIDTHS}
    if len({*widths.values()}) > 1 or widths[_WIDTHS[0]] % 2:
        raise Error(f"{container.path}: 'gemma4.{_WIDTHS[0]}', '{_WIDTHS[1]}' and '{_WIDTHS[2]}' are "
                    f"{[*widths.values()]}, and only one even number can be read here; {READ_ADVICE}")  # fmt: skip
    inner = _each_layer(container, _INNER, count)
    first, is_wide = count - shared, inner[-1] != inner[0]
    if inner != [inner[0] * (2 if is_wide and number >= first else 1) for number in range(count)]:
        raise Error(f"{container.path}: 'gemma4.{_INNER}' is {str(inner)[:60]}, and only one number can be read here, "
                    f"or twice that in layers that share keys; {READ_ADVICE}")  # fmt: skip
    heads = _each_layer(container, KEY_HEADS, count)
    full, windowed = kinds.index(_FULL), kinds.index(_WINDOWED)
    if heads != [heads[full if kind == _FULL else windowed] for kind in kinds]:
        raise Error(f"{container.path}: 'gemma4.{KEY_HEADS}' is {str(heads)[:60]}, and only one number for each kind "
                    f"of layers can be read here; {READ_ADVICE}")  # fmt: skip
    own = [number for number, kind in enumerate(kinds[:first]) if kind == _FULL]
    are_values_keys = bool(own) and not any(f"blk.{number}.attn_v.weight" in shapes for number in own)
    if heads[full] != heads[windowed] and not are_values_keys:
        raise Error(f"{container.path}: 'gemma4.{KEY_HEADS}' is {str(heads)[:60]}, and only one number can be read "
                    f"where layers have values of their own; {READ_ADVICE}")  # fmt: skip
    local = {"rope_type": "default", "rope_theta": container.real(f"gemma4.{_THETA}", 1.0, needed=True)}
    found: dict[str, object] = {
        "layer_types": kinds,
        "sliding_window": whole(WINDOW),
        "num_kv_shared_layers": shared,
        "head_dim": widths[_WIDTHS[0]],
        "global_head_dim": config["head_dim"],
        "num_key_value_heads": heads[windowed],
        "num_global_key_value_heads": heads[full],
        "attention_k_eq_v": are_values_keys,
        "intermediate_size": inner[0],
        "use_double_wide_mlp": is_wide,
        "hidden_size_per_layer_input": whole(_INPUTS, least=0),
        "vocab_size_per_layer_input": config["vocab_size"],
        "rope_parameters": {_FULL: config["rope_parameters"], _WINDOWED: local},
        "final_logit_softcapping": container.real(f"gemma4.{_CAP}", 0.0) or None,
        "enable_moe_block": bool(container.whole("gemma4.expert_count")),
    }
    if found["enable_moe_block"]:
        found |= {field: whole(key) for key, field in _EXPERTS.items()}
    return found


def _each_layer(container: Container, key: str, count: int) -> list[int]:
    """A list, or one number for all."""
    name = f"gemma4.{key}"
    if not isinstance(container.metadata.get(name), list):
        return [container.whole(name, least=1, needed=True)] * count
    found = container.wholes(name)
    if len(found) != count or min(found) < 1:
        raise Error(f"{container.path}: '{name}' is {str(found)[:60]}, which is not a number for each of {count} "
                    f"layers; {_DAMAGED}")  # fmt: skip
    return found
