# SPDX-License-Identifier: Apache-2.0
"""How long a sequence may be."""

from transformers import PreTrainedConfig

from mebp.errors import Error
from mebp.exporter.attention import windowed

_WINDOWS = ("sliding_window", "window_size", "attention_window_size", "local_attention")  # what configurations call it


def longest_sequence(config: PreTrainedConfig, name: str, seq_len: int, is_causal: bool = True) -> int | None:
    """The longest sequence for which a graph exported at `seq_len` is right once the compiler rebinds its length, None
    where there is no bound; raises Error where `seq_len` itself is too long for the model."""
    limits = [getattr(config, "max_position_embeddings", None)]
    limits += [getattr(config, "max_seq_len", None)]  # of MPT's biases
    rope = getattr(config, "rope_parameters", None) or {}
    limits += [
        parameters.get("original_max_position_embeddings")
        for parameters in (rope, *(value for value in rope.values() if isinstance(value, dict)))
        if parameters.get("rope_type") == "longrope"
    ]
    longest = min((limit for limit in limits if limit and limit > 0), default=None)
    if longest is not None and seq_len > longest:
        raise Error(f"--seq-len {seq_len}: {name} can be trained on up to {longest} tokens; choose at most that many")
    for name in _WINDOWS if is_causal else _WINDOWS[:1]:
        window = getattr(config, name, None)
        if isinstance(window, int) and not is_causal:
            window += 1  # an encoder's counts the tokens on one side
        windows = "sliding_attention" in (getattr(config, "layer_types", None) or ["sliding_attention"])
        if isinstance(window, int) and window > 0 and windows and not windowed(window, seq_len):
            # The graph has plain attention, which is the same only up to here.
            longest = min(window, longest or window)
    return longest
