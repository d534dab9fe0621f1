# SPDX-License-Identifier: Apache-2.0
"""The keys of an architecture that llama.cpp's loader reads, and what becomes of each: one table for reader and writer.

A key is read, or changes nothing, or may have one value alone. What is not in the table is refused by its name, for a
key that nobody reads may change what the model computes. test/e2e/test_gguf_settings.py compares each with llama.cpp.
"""

from mebp.errors import Error
from mebp.gguf import READ_ADVICE
from mebp.gguf.container import Container

# llama.cpp's key and the field of config.json that it is.
DECODER_FIELDS = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}
GPT2_FIELDS = {
    "context_length": "n_positions",
    "embedding_length": "n_embd",
    "block_count": "n_layer",
    "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
}
POSITION_KEYS = (
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scale_linear",
)
_OF_GEMMA = (
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "final_logit_softcapping",
    "rope.freq_base_swa",
)
_HEADS = ("attention.head_count_kv", "attention.key_length", "attention.value_length")

# Why a key changes nothing, in every architecture here unless it is read in that one.
_NOTHING = {
    "vocab_size": "the embedding's rows say it",
    "pooling_type": "it is about embeddings of texts, not about logits",
    "embedding_length_out": "it is about embeddings of texts, not about logits",
    "tensor_data_layout": "llama.cpp does not read it",
    "rope.scaling.finetuned": "llama.cpp prints it",
    "rope.scaling.alpha": "llama.cpp uses it in Hunyuan alone",
    "attention.sliding_window": "llama.cpp reads it in Gemma 3 alone, and switches it off in Phi-3",
    "attention.layer_norm_epsilon": "the norms are RMS norms",
}
_NOTHING_IN_GPT2 = {
    "attention.layer_norm_rms_epsilon": "the norms are not RMS norms",
    **dict.fromkeys(POSITION_KEYS, "positions are learned"),
}
# What these begin is about images, whose tensors llama.cpp keeps in a file of their own.
_OF_IMAGES = {"gemma3": ("mm.", "vision.")}
# The only value that llama.cpp computes as this package does.
_ONLY = {
    "attention.causal": True,
    "expert_count": 0,
    "expert_used_count": 0,
    "expert_group_count": 0,
    "expert_group_used_count": 0,
    "nextn_predict_layers": 0,
    # llama.cpp reads none of these in the architectures here, and a file that has another value means it.
    "rope.scaling.yarn_ext_factor": 1.0,
    "rope.scaling.yarn_attn_factor": 1.0,
    "rope.scaling.yarn_beta_fast": 32.0,
    "rope.scaling.yarn_beta_slow": 1.0,
    "rope.scaling.yarn_log_multiplier": 0.0,
}
# Those of layers with a window, and the key that they have to agree with.
_AS_ALL = {
    "attention.key_length_swa": "attention.key_length",
    "attention.value_length_swa": "attention.value_length",
    "rope.dimension_count_swa": "rope.dimension_count",
}


def read_keys(architecture: str) -> set[str]:
    """Those that the reader reads; the writer writes no others, but for vocab_size, which llama.cpp needs."""
    if architecture == "gpt2":
        return {*GPT2_FIELDS, "feed_forward_length", *_HEADS}
    return {*DECODER_FIELDS, *_HEADS, *POSITION_KEYS, *(_OF_GEMMA if architecture == "gemma3" else ())}


def known_keys(architecture: str) -> set[str]:
    """Each that the table has, whatever becomes of it."""
    return {*read_keys(architecture), *_without_effect(architecture), *_ONLY, *_AS_ALL}


def _without_effect(architecture: str) -> set[str]:
    return {*_NOTHING, *(_NOTHING_IN_GPT2 if architecture == "gpt2" else ())} - read_keys(architecture)


def check_keys(architecture: str, container: Container) -> None:
    """Raises mebp.Error, with the key, for one that may change what is computed and is not read."""
    prefix = f"{architecture}."
    read = read_keys(architecture)
    without_effect = _without_effect(architecture)
    for key, value in container.metadata.items():
        inner = key.removeprefix(prefix)
        if inner == key or inner in read or inner in without_effect:
            continue
        if inner.startswith(_OF_IMAGES.get(architecture, ())):
            continue
        if inner in _ONLY:
            if value != _ONLY[inner]:
                raise Error(f"{container.path}: '{key}' is {_shown(value)}, and only {_shown(_ONLY[inner])} can be "
                            f"read here; {READ_ADVICE}")  # fmt: skip
        elif inner in _AS_ALL:
            if value != container.metadata.get(prefix + _AS_ALL[inner]):
                raise Error(f"{container.path}: '{key}' is {_shown(value)}, and '{prefix}{_AS_ALL[inner]}' is not; "
                            f"{READ_ADVICE}")  # fmt: skip
        else:
            raise Error(f"{container.path}: has the key '{key}', which is not known here and may change what the model "
                        f"computes; {READ_ADVICE}")  # fmt: skip


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)[:60]
