# SPDX-License-Identifier: Apache-2.0
"""A model's config.json as llama.cpp's keys, and back."""

from collections.abc import Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.gguf import READ_ADVICE, WRITE_ADVICE
from mebp.gguf.ahead import layers_ahead
from mebp.gguf.architecture import WINDOW, Architecture
from mebp.gguf.container import Container
from mebp.gguf.experts import check_rules
from mebp.gguf.positions import read_rope, rope_metadata, rope_of
from mebp.gguf.vocabulary import special_id

_EMBEDDING = "token_embd.weight"
_KEY_HEADS = "attention.head_count_kv"
_WIDEST_HEAD = 1 << 16
_DAMAGED = "download it again"
# Fields of GPT-2 that change what is computed, and what llama.cpp computes.
_GPT2_RULES = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}


def model_metadata(architecture: Architecture, config: Mapping, file: Path) -> dict[str, object]:
    """llama.cpp's keys without the architecture's name before them; raises mebp.Error, about the config.json `file`,
    for what llama.cpp would compute otherwise."""
    older = {new: config[old] for old, new in architecture.older_fields.items() if old in config}
    given = {name: value for name, value in config.items() if value is not None or name not in architecture.usual}
    config, names = {**architecture.usual, **given, **older}, architecture.keys.fields
    for field in [*names.values(), "vocab_size"]:
        if not isinstance(config.get(field), int | float) or isinstance(config[field], bool):
            raise Error(f"{file}: lacks the number '{field}'; export and compile the model again")
    _check_activation(architecture, config, file)
    found: dict[str, object] = {key: config[field] for key, field in names.items()}
    found["vocab_size"] = config["vocab_size"]
    if architecture.name == "gpt2":
        check_rules(config, _GPT2_RULES, "gpt2", file)
        return {**found, "feed_forward_length": config.get("n_inner") or 4 * config["n_embd"]}
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    usual, rope = architecture.turned_part or 1.0, rope_of(config)
    # Proportional positions turn all, some of it by nothing.
    part = usual if rope.get("rope_type") == "proportional" else rope.get("partial_rotary_factor", usual)
    turned = width * config.get("partial_rotary_factor", part)
    if turned != width and architecture.turned_part is None:
        raise Error(f"{file}: has positions in a part of each head, which llama.cpp does not compute in "
                    f"'{architecture.name}'; {WRITE_ADVICE}")  # fmt: skip
    found |= {
        "attention.head_count_kv": config.get("num_key_value_heads") or heads,
        "attention.key_length": width,
        "attention.value_length": width,
        "rope.dimension_count": int(turned),
    }
    _check_window(architecture, config, file)
    positions = rope_metadata(config, file, architecture.usual_theta, architecture.plain_positions)
    return found | positions | architecture.own_metadata(config, file)


def model_config(architecture: Architecture, container: Container) -> dict[str, object]:
    """The fields of config.json that the file's keys say, and its tensors; the other way of model_metadata."""

    name = architecture.name
    architecture.keys.check(name, container)

    def whole(key: str, needed: bool = False) -> int | None:
        return container.whole(f"{name}.{key}", least=1, needed=needed)

    def number(key: str) -> float | int:
        is_real = key.endswith("epsilon")
        return container.real(f"{name}.{key}", 0.0, needed=True) if is_real else whole(key, needed=True)

    shapes = {tensor.name: tensor.shape for tensor in container.tensors}
    rows, columns = _embedding(container, shapes)
    names, per_layer = architecture.keys.fields, architecture.keys.per_layer
    found: dict[str, object] = {field: number(key) for key, field in names.items() if key not in per_layer}
    found |= {
        "model_type": architecture.model_type,
        "vocab_size": rows,
        "tie_word_embeddings": "output.weight" not in shapes,
        **{f"{ours}_token_id": special_id(container, theirs, rows - 1)
           for ours, theirs in [("bos", "bos"), ("eos", "eos"), ("pad", "padding")]},
    }  # fmt: skip
    if found[names["embedding_length"]] != columns:
        raise Error(f"{container.path}: '{name}.embedding_length' is {found[names['embedding_length']]}, and tensor "
                    f"'{_EMBEDDING}' has rows of {columns}; {_DAMAGED}")  # fmt: skip
    _check_blocks(container, f"{name}.block_count", found[names["block_count"]], shapes)
    if ahead := layers_ahead(container):
        if ahead >= found[names["block_count"]]:
            raise Error(f"{container.path}: '{name}.nextn_predict_layers' is {ahead} of {found[names['block_count']]} "
                        f"layers; {_DAMAGED}")  # fmt: skip
        found[names["block_count"]] -= ahead
    tokens = container.texts("tokenizer.ggml.tokens")
    if tokens is not None and len(tokens) != rows:
        raise Error(f"{container.path}: 'tokenizer.ggml.tokens' has {len(tokens)} entries, and tensor '{_EMBEDDING}' "
                    f"has {rows} rows; {_DAMAGED}")  # fmt: skip
    heads = found[names["attention.head_count"]]
    width = whole("attention.key_length") or columns // heads
    if name == "gpt2":
        _check_same(container, f"{name}.attention.head_count_kv", heads)
        for key in ("key_length", "value_length"):
            _check_same(container, f"{name}.attention.{key}", columns // heads)
        return {**found, "n_inner": whole("feed_forward_length", needed=True)}
    turned = whole("rope.dimension_count")
    if not 0 < width <= _WIDEST_HEAD or not 0 < (turned or width) <= width or (turned or width) % 2:
        raise Error(f"{container.path}: '{name}.attention.key_length' and '{name}.rope.dimension_count' make heads of "
                    f"{width} with positions in {turned or width}, which cannot be; {_DAMAGED}")  # fmt: skip
    _check_same(container, f"{name}.attention.value_length", width)
    context, is_scaled = found["max_position_embeddings"], architecture.scales_positions
    rope = read_rope(container, name, context, is_scaled, architecture.has_local_positions)
    if turned and turned != width:
        if architecture.turned_part is None:
            _check_same(container, f"{name}.rope.dimension_count", width)
        found["partial_rotary_factor"] = rope["partial_rotary_factor"] = turned / width
    found |= {
        "head_dim": width,
        **({} if _KEY_HEADS in per_layer else {"num_key_value_heads": whole(_KEY_HEADS) or heads}),
        "attention_bias": "blk.0.attn_q.bias" in shapes,
        "mlp_bias": "blk.0.ffn_up.bias" in shapes,
        "sliding_window": None,  # llama.cpp has it in Gemma 3 alone
        "rope_parameters": rope,
        "rope_theta": rope["rope_theta"],  # where others than transformers look, MLX-LM among them
    }
    return found | architecture.own_config(container, found)


def ignored_window(architecture: Architecture, container: Container) -> str | None:
    """What to say of a window that llama.cpp ignores, where it is shorter than the context."""
    key = f"{architecture.name}.{WINDOW}"
    window = None if architecture.has_window else container.whole(key)
    if not window or window >= (container.whole(f"{architecture.name}.context_length") or 0):
        return None
    return (f"{container.path}: '{key}' is {window}, which llama.cpp ignores in '{architecture.name}', and so does "
            f"mebp; {READ_ADVICE} if it has to count")  # fmt: skip


def _check_same(container: Container, key: str, value: int) -> None:
    found = container.whole(key, least=1)
    if found not in (None, value):
        raise Error(f"{container.path}: '{key}' is {found}, and only {value} can be read here; {READ_ADVICE}")


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


def _check_window(architecture: Architecture, config: Mapping, file: Path) -> None:
    window = None if architecture.has_window else config.get("sliding_window")
    if window and config.get("use_sliding_window", True) and window < config["max_position_embeddings"]:
        raise Error(f"{file}: has a sliding window, which llama.cpp ignores in '{architecture.name}'; {WRITE_ADVICE}")


def _check_activation(architecture: Architecture, config: Mapping, file: Path) -> None:
    field = next(
        (field for field in ("hidden_activation", "activation_function", "hidden_act") if config.get(field)), ""
    )
    allowed = architecture.activations
    if config.get(field, allowed[0]) not in allowed:
        raise Error(f"{file}: has the activation '{config[field]}', and llama.cpp computes {allowed[0]} in "
                    f"'{architecture.name}'; {WRITE_ADVICE}")  # fmt: skip
