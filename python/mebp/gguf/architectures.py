# SPDX-License-Identifier: Apache-2.0
"""The model types that llama.cpp and mebp share, with a table for each, and which of them is meant."""

import reprlib

from mebp.errors import Error
from mebp.gguf.architecture import Architecture
from mebp.gguf.container import Container
from mebp.gguf.dense import GEMMA3, GPT2, LLAMA, PHI3, QWEN2, QWEN3
from mebp.gguf.gemma2 import GEMMA, GEMMA2
from mebp.gguf.gemma4 import GEMMA4
from mebp.gguf.granite import GRANITE
from mebp.gguf.lfm2 import LFM2, LFM2_MOE
from mebp.gguf.mixtures import MIXTRAL, QWEN2_MOE, QWEN3_MOE
from mebp.gguf.olmo2 import OLMO2
from mebp.gguf.qwen_hybrid import QWEN3_5, QWEN3_5_MOE, QWEN3_NEXT
from mebp.gguf.smollm3 import SMOLLM3

# By transformers' model type. Each is compared by logits in llama.cpp (test/e2e/test_gguf_base.py).
ARCHITECTURES: dict[str, Architecture] = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "gemma": GEMMA,
    "gemma2": GEMMA2,
    "gemma3_text": GEMMA3,
    "gemma4_text": GEMMA4,
    "phi3": PHI3,
    "gpt2": GPT2,
    "qwen3_5_text": QWEN3_5,
    "qwen3_5_moe_text": QWEN3_5_MOE,
    "qwen3_next": QWEN3_NEXT,
    "lfm2": LFM2,
    "lfm2_moe": LFM2_MOE,
    "mixtral": MIXTRAL,
    "qwen2_moe": QWEN2_MOE,
    "qwen3_moe": QWEN3_MOE,
    "smollm3": SMOLLM3,
    "granite": GRANITE,
    "olmo2": OLMO2,
}


def architecture_of(model_type: object, what: str) -> Architecture:
    """Raises mebp.Error, about `what`, for a model type that is not in the table."""
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise Error(f"{what}: model type {_shown(model_type)} cannot be written as GGUF here; there is {known}")
    return ARCHITECTURES[model_type]


def architecture_in(container: Container) -> Architecture:
    """Of a file with a whole model."""
    found = architecture_named(container.text("general.architecture", needed=True), f"{container.path}")
    if found is LLAMA and container.whole("llama.expert_count"):
        return MIXTRAL
    return found.as_in(container)


def architecture_named(name: object, what: str) -> Architecture:
    """By what general.architecture says; Mixtral's adapters have the names of Llama's."""
    for architecture in ARCHITECTURES.values():
        if architecture.name == name:
            return architecture
    known = ", ".join(sorted({each.name for each in ARCHITECTURES.values()}))
    raise Error(f"{what}: architecture {_shown(name)} is not one that can be read here; there is {known}")


def _shown(value: object) -> str:
    return f"'{value[:60]}'" if isinstance(value, str) else reprlib.repr(value)
