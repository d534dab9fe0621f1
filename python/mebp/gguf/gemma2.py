# SPDX-License-Identifier: Apache-2.0
"""Gemma and Gemma 2. In the second llama.cpp bends scores and logits always, and every second layer has a window."""

from collections.abc import Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.gguf import WRITE_ADVICE
from mebp.gguf.architecture import WINDOW, Architecture
from mebp.gguf.container import Container
from mebp.gguf.dense import ATTENTION, DECODER, GATED, NORMS
from mebp.gguf.experts import check_rules
from mebp.gguf.gemma import layer_order, score_scalar
from mebp.gguf.keys import Keys
from mebp.gguf.weights import Weight

_OUTER = DECODER[:2]  # llama.cpp takes the embedding for the head
_PERIOD = 2
_LARGEST_LAYERS = 46  # of 27B, whose scores llama.cpp divides by another width
# llama.cpp's keys, the fields of config.json, and what both take where they have none.
_CAPS = (("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0))
_USUAL_WINDOW, _USUAL_SCALAR, _USUAL_WIDTH = 4096, 256, 256


def _check(name: str, config: Mapping, file: Path) -> None:
    check_rules(config, {"attention_bias": False, "tie_word_embeddings": True}, name, file)
    if config.get("use_bidirectional_attention"):
        raise Error(f"{file}: has use_bidirectional_attention, which llama.cpp does not compute in '{name}'; "
                    f"{WRITE_ADVICE}")  # fmt: skip


def _gemma_metadata(config: Mapping, file: Path) -> dict[str, object]:
    _check("gemma", config, file)
    return {}


def _metadata(config: Mapping, file: Path) -> dict[str, object]:
    _check("gemma2", config, file)
    count, heads = config["num_hidden_layers"], config["num_attention_heads"]
    kinds = config.get("layer_types") or layer_order(count, _PERIOD)
    if kinds != layer_order(count, _PERIOD):
        raise Error(f"{file}: has layers with a window in another order than every second, which llama.cpp does not "
                    f"compute in 'gemma2'; {WRITE_ADVICE}")  # fmt: skip
    width = config.get("head_dim") or config["hidden_size"] // heads
    scalar = score_scalar(config, width, _LARGEST_LAYERS)
    found_scalar = config.get("query_pre_attn_scalar", _USUAL_SCALAR)
    if found_scalar != scalar:
        raise Error(f"{file}: has query_pre_attn_scalar {found_scalar}, and llama.cpp computes {scalar} in 'gemma2'; "
                    f"{WRITE_ADVICE}")  # fmt: skip
    for field, usual in _CAPS:
        if not config.get(field, usual):
            raise Error(f"{file}: has no {field}, and llama.cpp computes one in 'gemma2' always; {WRITE_ADVICE}")
    caps = {field: float(config.get(field, usual)) for field, usual in _CAPS}
    return {WINDOW: int(config.get("sliding_window") or _USUAL_WINDOW), **caps}


def _config(container: Container, config: dict) -> dict[str, object]:
    count = config["num_hidden_layers"]
    caps = {field: container.real(f"gemma2.{field}", 0.0) for field, _ in _CAPS}
    wrong = next((field for field, value in caps.items() if value == 0), None)
    if wrong:
        raise Error(f"{container.path}: 'gemma2.{wrong}' is 0, by which nothing can be divided; download it again")
    return {
        **{field: usual if caps[field] is None else caps[field] for field, usual in _CAPS},
        "sliding_window": container.whole(f"gemma2.{WINDOW}", least=1) or _USUAL_WINDOW,
        "layer_types": layer_order(count, _PERIOD),
        "query_pre_attn_scalar": score_scalar(config, config["head_dim"], _LARGEST_LAYERS),
    }


GEMMA = Architecture(
    "gemma",
    "gemma",
    "GemmaForCausalLM",
    _OUTER,
    (*ATTENTION, *GATED, *NORMS),
    norm_offset=True,
    tied=True,
    activations=("gelu_pytorch_tanh", "gelu"),  # transformers takes the one for the other
    usual={"head_dim": _USUAL_WIDTH},
    own_metadata=_gemma_metadata,
)
GEMMA2 = Architecture(
    "gemma2",
    "gemma2",
    "Gemma2ForCausalLM",
    _OUTER,
    (
        *ATTENTION,
        *GATED,
        Weight("input_layernorm", "attn_norm", "h"),
        Weight("post_attention_layernorm", "post_attention_norm", "h"),
        Weight("pre_feedforward_layernorm", "ffn_norm", "h"),
        Weight("post_feedforward_layernorm", "post_ffw_norm", "h"),
    ),
    keys=Keys(own=frozenset({WINDOW, *(field for field, _ in _CAPS)})),
    norm_offset=True,
    tied=True,
    activations=("gelu_pytorch_tanh",),
    usual={"head_dim": _USUAL_WIDTH},
    own_metadata=_metadata,
    own_config=_config,
)
