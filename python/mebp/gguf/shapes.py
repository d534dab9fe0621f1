# SPDX-License-Identifier: Apache-2.0
"""Which tensors a model has, and of which shapes, by its keys: what is missing or too much is named before an export
meets it under another name."""

from collections.abc import Mapping

from mebp.errors import Error
from mebp.gguf import READ_ADVICE, ROPE_FACTORS
from mebp.gguf.architectures import Architecture
from mebp.gguf.container import Container

# A letter is an extent: h of the hidden states, q and k of all queries and keys, a of these with the values, f between
# the layers of the feed-forward network and g of two of these, w of one head.
_DECODER = {
    "attn_q": "qh", "attn_k": "kh", "attn_v": "kh", "attn_qkv": "ah", "attn_output": "hq",
    "ffn_gate": "fh", "ffn_up": "fh", "ffn_down": "hf", "attn_q_norm": "w", "attn_k_norm": "w",
}  # fmt: skip
_OTHER = {"phi3": {"ffn_up": "gh"}}
_ATTENTION, _FEED_FORWARD = ("attn_q", "attn_k", "attn_v", "attn_output"), ("ffn_gate", "ffn_up", "ffn_down")


def check_tensors(container: Container, architecture: Architecture, config: Mapping) -> None:
    """Raises mebp.Error, with the tensor, where the file has others than `config`, which its keys make, asks for."""
    expected = _expected(architecture, config)
    found = {tensor.name: tensor.shape for tensor in container.tensors}
    for name, shape in expected.items():
        if name not in found:
            raise Error(f"{container.path}: lacks the tensor '{name}'; download it again")
        if found[name] != shape:
            raise Error(f"{container.path}: tensor '{name}' has the shape {list(found[name])}, and by the file's keys "
                        f"it is {list(shape)}; download it again")  # fmt: skip
    for name in found:
        if name not in expected and name != ROPE_FACTORS:
            raise Error(f"{container.path}: has the tensor '{name}', which is not known in architecture "
                        f"'{architecture.name}'; {READ_ADVICE}")  # fmt: skip


def _expected(architecture: Architecture, config: Mapping) -> dict[str, tuple[int, ...]]:
    is_gpt2 = architecture.name == "gpt2"
    hidden, layers = (config[name] for name in (("n_embd", "n_layer") if is_gpt2 else
                                                ("hidden_size", "num_hidden_layers")))  # fmt: skip
    queries = hidden if is_gpt2 else config["num_attention_heads"] * config["head_dim"]
    keys = hidden if is_gpt2 else config["num_key_value_heads"] * config["head_dim"]
    inner = config["n_inner"] if is_gpt2 else config["intermediate_size"]
    extents = {"h": hidden, "q": queries, "k": keys, "a": queries + 2 * keys, "f": inner, "g": 2 * inner,
               "w": config.get("head_dim", 0)}  # fmt: skip
    kinds = {**_DECODER, **_OTHER.get(architecture.name, {})}
    biased = _biased(architecture, config)
    expected = {"token_embd.weight": (config["vocab_size"], hidden), "output_norm.weight": (hidden,)}
    if is_gpt2:
        expected |= {"position_embd.weight": (config["n_positions"], hidden), "output_norm.bias": (hidden,)}
    if not config["tie_word_embeddings"]:
        expected["output.weight"] = (config["vocab_size"], hidden)
    for layer in range(layers):
        for inner_name in architecture.inner.values():
            shape = tuple(extents[letter] for letter in kinds.get(inner_name, "h"))
            expected[f"blk.{layer}.{inner_name}.weight"] = shape
            if inner_name in biased:
                expected[f"blk.{layer}.{inner_name}.bias"] = shape[:1]
    return expected


def _biased(architecture: Architecture, config: Mapping) -> set[str]:
    """The modules of a layer that have one, as transformers' class of this model has them."""
    if architecture.name == "gpt2":
        return set(architecture.inner.values())
    if architecture.name == "qwen2":
        return set(_ATTENTION[:3])
    attention = config["attention_bias"] and architecture.name != "phi3"
    return {*(_ATTENTION if attention else ()),
            *(_FEED_FORWARD if config["mlp_bias"] and architecture.name == "llama" else ())}  # fmt: skip
