# SPDX-License-Identifier: Apache-2.0
"""What MLX-LM has stored otherwise than it was published: all experts of a projection in one tensor, the kernels of
convolutions with channels last, and norms with their 1 added."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mebp.exporter.checkpoint import StoredTensor, is_of_mlx, read_header
from mebp.tensor_file import read_stored, write_tensors

_FILE = "norms.safetensors"
_ADVICE = "download it again"
_EXPERTS = re.compile(r"(.+)\.switch_mlp\.(\w+)\.weight")
_MOST_EXPERTS = 4096  # a header alone could ask for any number
_KERNELS = (".conv.conv.weight", ".conv1d.weight")
_NORMS = (".input_layernorm.weight", ".post_attention_layernorm.weight", "model.norm.weight", ".q_norm.weight",
          ".k_norm.weight")  # fmt: skip


@dataclass(frozen=True)
class _Type:
    """names: what a projection is called in a checkpoint, by MLX's name."""

    has_kernels: bool = False
    adds_one: bool = False
    names: Mapping[str, str] = field(default_factory=dict)


# MLX-LM changes tensors of other types in ways that no name and no shape shows.
_TYPES = {
    "qwen2_moe": _Type(),
    "qwen3_moe": _Type(),
    "qwen3_next": _Type(has_kernels=True, adds_one=True),
    "qwen3_5_text": _Type(has_kernels=True, adds_one=True),
    "lfm2": _Type(has_kernels=True),
    "lfm2_moe": _Type(has_kernels=True, names={"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}),
}


def as_published(checkpoint: dict[str, StoredTensor], model_type: str, folder: Path) -> dict[str, StoredTensor]:
    """The checkpoint with each expert's tensors and each kernel as places in the same bytes, and norms in a file in
    `folder`; of a type that is not known as it is, which is then refused by a name or a shape."""
    known = _TYPES.get(model_type)
    if known is None or not any(map(is_of_mlx, {tensor.file for tensor in checkpoint.values()})):
        return checkpoint
    published = dict(_published(checkpoint, known))
    # MLX-LM adds it where it turns the kernels.
    adds_one = known.adds_one and any(map(_is_turned, checkpoint, checkpoint.values()))
    return published | _without_one(published, folder) if adds_one else published


def _published(checkpoint: Mapping[str, StoredTensor], known: _Type) -> Iterator[tuple[str, StoredTensor]]:
    for name, tensor in checkpoint.items():
        experts = _EXPERTS.fullmatch(name)
        if experts and len(tensor.shape) == 3 and 0 < tensor.shape[0] <= _MOST_EXPERTS:
            called = known.names.get(experts[2], experts[2])
            for expert in range(tensor.shape[0]):
                place = replace(tensor.part(expert, expert + 1), shape=tensor.shape[1:])
                yield f"{experts[1]}.experts.{expert}.{called}.weight", place
        elif known.has_kernels and _is_turned(name, tensor):
            yield name, replace(tensor, shape=(tensor.shape[0], 1, tensor.shape[1]))
        else:
            yield _renamed(name, known), tensor


def _is_turned(name: str, tensor: StoredTensor) -> bool:
    """Of [channels, 1, width], [channels, width, 1]."""
    return name.endswith(_KERNELS) and len(tensor.shape) == 3 and tensor.shape[-1] == 1


def _renamed(name: str, known: _Type) -> str:
    module, _, projection = name.removesuffix(".weight").rpartition(".")
    return f"{module}.{known.names[projection]}.weight" if projection in known.names else name


def _without_one(checkpoint: Mapping[str, StoredTensor], folder: Path) -> dict[str, StoredTensor]:
    """The norms as transformers has them, which adds 1 itself; f32 holds that of a bf16 number."""
    norms = {name: tensor for name, tensor in checkpoint.items() if name.endswith(_NORMS) and len(tensor.shape) == 1}
    numbers = (read_stored(name, tensor, _ADVICE) - np.float32(1) for name, tensor in norms.items())
    write_tensors(folder / _FILE, {name: tensor.shape for name, tensor in norms.items()}, numbers, "f32",
                  advice=_ADVICE)  # fmt: skip
    return read_header(folder / _FILE)
