# SPDX-License-Identifier: Apache-2.0
"""Granite: a Llama that multiplies its embeddings, scores and residuals, and divides its logits."""

from collections.abc import Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.gguf import WRITE_ADVICE
from mebp.gguf.architecture import Architecture
from mebp.gguf.container import Container
from mebp.gguf.dense import DECODER, GATED, NORMS, PAIRED, biases_of_llama
from mebp.gguf.keys import Keys

# llama.cpp's keys and the fields of config.json; both take 1 where they have none, but for the next two.
_LOGITS, _SCORES = "logit_scale", "attention.scale"
_SCALES = {
    _LOGITS: "logits_scaling",
    _SCORES: "attention_multiplier",
    "residual_scale": "residual_multiplier",
    "embedding_scale": "embedding_multiplier",
}


def _metadata(config: Mapping, file: Path) -> dict[str, object]:
    found = {key: float(config.get(field, 1.0)) for key, field in _SCALES.items()}
    wrong = next((key for key, value in found.items() if not value), None)
    if wrong:
        raise Error(f"{file}: has {_SCALES[wrong]} 0, which llama.cpp takes for another; {WRITE_ADVICE}")
    return found


def _config(container: Container, config: dict) -> dict[str, object]:
    """llama.cpp takes 0 for no scale, which for the scores is the root of a head's width."""
    found = {field: container.real(f"granite.{key}", 0.0, needed=key == _LOGITS) for key, field in _SCALES.items()}
    if not found[_SCALES[_LOGITS]]:
        raise Error(f"{container.path}: 'granite.{_LOGITS}' is 0, by which nothing can be divided; download it again")
    usual = {_SCALES[_SCORES]: config["head_dim"] ** -0.5}
    return {field: value or usual.get(field, 1.0) for field, value in found.items()}


GRANITE = Architecture(
    "granite",
    "granite",
    "GraniteForCausalLM",
    DECODER,
    (*PAIRED, *GATED, *NORMS),
    biased=biases_of_llama,
    # Where that is false, llama.cpp computes a Granite without positions.
    keys=Keys(own=frozenset(_SCALES), only={"rope.scaling.finetuned": True}),
    own_metadata=_metadata,
    own_config=_config,
)
