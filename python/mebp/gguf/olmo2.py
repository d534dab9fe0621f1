# SPDX-License-Identifier: Apache-2.0
"""OLMo 2: norms behind attention and feed-forward network, and over all queries and all keys at once."""

from collections.abc import Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.gguf import READ_ADVICE, WRITE_ADVICE
from mebp.gguf.architecture import WINDOW, Architecture
from mebp.gguf.container import Container
from mebp.gguf.dense import ATTENTION, DECODER, GATED
from mebp.gguf.experts import check_rules
from mebp.gguf.keys import Keys
from mebp.gguf.weights import Weight


def check_head(config: Mapping, name: str, file: Path) -> None:
    """Raises mebp.Error, about the config.json `file`, where llama.cpp wants a head and heads of the usual width."""
    check_rules(config, {"tie_word_embeddings": False}, name, file)
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    if (config.get("head_dim") or hidden // heads) * heads != hidden:
        raise Error(f"{file}: has {heads} heads of {config['head_dim']}, and llama.cpp wants as many numbers in them "
                    f"as the hidden_size, {hidden}, in '{name}'; {WRITE_ADVICE}")  # fmt: skip


def check_head_of(container: Container, config: Mapping) -> None:
    """The other way."""
    if config["tie_word_embeddings"]:
        raise Error(f"{container.path}: lacks the tensor 'output.weight'; {READ_ADVICE}")


def _metadata(config: Mapping, file: Path) -> dict[str, object]:
    check_rules(config, {"attention_bias": False}, "olmo2", file)
    check_head(config, "olmo2", file)
    return {}


def _config(container: Container, config: dict) -> dict[str, object]:
    check_head_of(container, config)
    return {}


OLMO2 = Architecture(
    "olmo2",
    "olmo2",
    "Olmo2ForCausalLM",
    DECODER,
    (
        *ATTENTION,
        *GATED,
        Weight("self_attn.q_norm", "attn_q_norm", "q"),
        Weight("self_attn.k_norm", "attn_k_norm", "k"),
        Weight("post_attention_layernorm", "post_attention_norm", "h"),
        Weight("post_feedforward_layernorm", "post_ffw_norm", "h"),
    ),
    keys=Keys(only={WINDOW: 0}),  # else it is an OLMo 3
    own_metadata=_metadata,
    own_config=_config,
)
