# SPDX-License-Identifier: Apache-2.0
"""The public shapes whose memory is measured, and what the MeSP paper reports for them."""

import json
from dataclasses import dataclass
from pathlib import Path

VOCABULARY = 151936


@dataclass(frozen=True)
class Shape:
    """Sizes of a Qwen2.5 model. By tokens of a sequence: `budgets`, what this project plans for, and `mesp`, the peak
    (phys_footprint on Apple silicon) in MeSP's tables, in MB."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    budgets: dict[int, int]
    mesp: dict[int, float]
    vocabulary: int = VOCABULARY
    tied: bool = True  # the head's weight is the embedding's

    def write_config(self, folder: Path) -> None:
        """What transformers needs to build the model: its config.json."""
        config = {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "intermediate_size": self.intermediate,
            "vocab_size": self.vocabulary,
            "rope_theta": 1e6,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": self.tied,
            "max_position_embeddings": 32768,
            "torch_dtype": "bfloat16",
        }
        _write_config(folder, config)


@dataclass(frozen=True)
class Hybrid:
    """One whose layers are not all of a kind, by the fields of its config.json."""

    fields: dict

    def write_config(self, folder: Path) -> None:
        _write_config(folder, self.fields)


def _write_config(folder: Path, config: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))


SHAPES = {
    "Qwen2.5-0.5B": Shape(896, 24, 14, 2, 4864, {256: 40, 1024: 80}, {256: 136.2, 1024: 513.6}),
    "Qwen2.5-1.5B": Shape(1536, 28, 12, 2, 8960, {256: 75, 1024: 115}, {256: 262.6, 1024: 798.5}),
    "Qwen2.5-3B": Shape(2048, 36, 16, 2, 11008, {256: 120, 1024: 170}, {256: 368.4, 1024: 925.8}),
}
# Too large to be measured with the others; by what `mebpc --spill all` comes to.
LARGE = {
    "Llama-3-8B": Shape(4096, 32, 32, 8, 14336, {256: 64}, {}, vocabulary=128256, tied=False),
    "Llama-3-70B": Shape(8192, 80, 64, 8, 28672, {256: 160}, {}, vocabulary=128256, tied=False),
}
SMALL = {"small": Shape(256, 4, 4, 2, 1024, {}, {}, vocabulary=8192)}  # of nobody's: for devices that are slow
_QWEN35 = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "vocab_size": 248320,
    "tie_word_embeddings": True,
    "max_position_embeddings": 262144,
    "dtype": "bfloat16",
}


def _qwen35(hidden: int, intermediate: int, layers: int, heads: int, kv_heads: int, value_heads: int) -> Hybrid:
    sizes = {"hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers}
    attention = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "linear_num_value_heads": value_heads}
    return Hybrid(_QWEN35 | sizes | attention)


HYBRIDS = {
    "Qwen3.5-0.8B": _qwen35(1024, 3584, 24, 8, 2, 16),
    "Qwen3.5-2B": _qwen35(2048, 6144, 24, 8, 2, 16),
    "Qwen3.5-4B": _qwen35(2560, 9216, 32, 16, 4, 32),
}  # of layers that carry states
LENGTHS = (256, 1024)
