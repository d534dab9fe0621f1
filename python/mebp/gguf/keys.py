# SPDX-License-Identifier: Apache-2.0
"""The keys of an architecture that llama.cpp's loader reads, and what becomes of each: one table for reader and writer.

A key is read, or changes nothing, or may have one value alone. What is not in the table is refused by its name, for a
key that nobody reads may change what the model computes. test/e2e/test_gguf_settings.py compares each with llama.cpp.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
_HEADS = ("attention.head_count_kv", "attention.key_length", "attention.value_length")

# Why a key changes nothing, in every architecture here unless it is read in that one.
_NOTHING = {
    "vocab_size": "the embedding's rows say it",
    "pooling_type": "it is about embeddings of texts, not about logits",
    "embedding_length_out": "it is about embeddings of texts, not about logits",
    "tensor_data_layout": "llama.cpp does not read it",
    "rope.scaling.finetuned": "llama.cpp prints it",
    "rope.scaling.alpha": "llama.cpp uses it in Hunyuan alone",
    "attention.sliding_window": "llama.cpp switches it off in Phi-3, and does not read it",
    "attention.layer_norm_epsilon": "the norms are RMS norms",
}
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


@dataclass(frozen=True)
class Keys:
    """Of one architecture.

    fields: those that are fields of config.json. own: others that are read in this one alone.
    per_layer: those that are read as a list with one number for each layer.
    without_effect: those that change nothing in this one, and why. only: the one value that can be read.
    images: what keys begin with that are about images, whose tensors llama.cpp keeps in a file of their own.
    """

    fields: Mapping[str, str] = field(default_factory=lambda: DECODER_FIELDS)
    own: frozenset[str] = frozenset()
    per_layer: frozenset[str] = frozenset()
    without_effect: Mapping[str, str] = field(default_factory=dict)
    only: Mapping[str, object] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    has_positions: bool = True

    @property
    def read(self) -> set[str]:
        """Those that the reader reads; the writer writes no others, but for vocab_size, which llama.cpp needs."""
        return {*self.fields, *_HEADS, *(POSITION_KEYS if self.has_positions else ()), *self.own}

    @property
    def known(self) -> set[str]:
        """Each that the table has, whatever becomes of it."""
        return {*self.read, *self._ignored, *_ONLY, *self.only, *_AS_ALL}

    @property
    def _ignored(self) -> set[str]:
        positions = () if self.has_positions else POSITION_KEYS
        return {*_NOTHING, *self.without_effect, *positions} - self.read - self.only.keys()

    def check(self, architecture: str, container: Container) -> None:
        """Raises mebp.Error, with the key, for one that may change what is computed and is not read."""
        prefix, read, ignored, only = f"{architecture}.", self.read, self._ignored, {**_ONLY, **self.only}
        for key, value in container.metadata.items():
            inner = key.removeprefix(prefix)
            if inner == key or inner in read or inner in ignored or inner.startswith(self.images):
                continue
            if inner in only:
                if value != only[inner]:
                    raise Error(f"{container.path}: '{key}' is {_shown(value)}, and only {_shown(only[inner])} can be "
                                f"read here; {READ_ADVICE}")  # fmt: skip
            elif inner in _AS_ALL:
                if value != container.metadata.get(prefix + _AS_ALL[inner]):
                    raise Error(f"{container.path}: '{key}' is {_shown(value)}, and '{prefix}{_AS_ALL[inner]}' is not; "
                                f"{READ_ADVICE}")  # fmt: skip
            else:
                raise Error(f"{container.path}: has the key '{key}', which is not known here and may change what the "
                            f"model computes; {READ_ADVICE}")  # fmt: skip


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)[:60]
