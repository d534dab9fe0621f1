# SPDX-License-Identifier: Apache-2.0
"""What MLX-LM has stored in other shapes than it was published: all experts of a projection in one tensor, and the
kernels of convolutions with channels last."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from mebp.exporter.checkpoint import StoredTensor, is_of_mlx

_EXPERTS = re.compile(r"(.+)\.switch_mlp\.(\w+)\.weight")
_KERNEL = ".conv.conv.weight"


@dataclass(frozen=True)
class _Type:
    """names: what a projection is called in a checkpoint, by MLX's name."""

    has_kernels: bool = False
    names: Mapping[str, str] = field(default_factory=dict)


# MLX-LM changes tensors of other types in ways that no shape shows, such as norms that it adds 1 to.
_TYPES = {
    "qwen2_moe": _Type(),
    "qwen3_moe": _Type(),
    "lfm2": _Type(has_kernels=True),
    "lfm2_moe": _Type(has_kernels=True, names={"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}),
}


def as_published(checkpoint: dict[str, StoredTensor], model_type: str) -> dict[str, StoredTensor]:
    """The checkpoint with each expert's tensors and each kernel as places in the same bytes; of a type that is not
    known as it is, which is then refused by a name or a shape."""
    known = _TYPES.get(model_type)
    if known is None or not any(map(is_of_mlx, {tensor.file for tensor in checkpoint.values()})):
        return checkpoint
    return dict(_published(checkpoint, known))


def _published(checkpoint: Mapping[str, StoredTensor], known: _Type) -> Iterator[tuple[str, StoredTensor]]:
    for name, tensor in checkpoint.items():
        experts = _EXPERTS.fullmatch(name)
        if experts and len(tensor.shape) == 3:
            called = known.names.get(experts[2], experts[2])
            length = tensor.length // max(1, tensor.shape[0])
            for expert in range(tensor.shape[0]):
                place = replace(tensor, offset=tensor.offset + expert * length, length=length, shape=tensor.shape[1:])
                yield f"{experts[1]}.experts.{expert}.{called}.weight", place
        elif known.has_kernels and name.endswith(_KERNEL) and len(tensor.shape) == 3 and tensor.shape[-1] == 1:
            yield name, replace(tensor, shape=(tensor.shape[0], 1, tensor.shape[1]))
        else:
            yield _renamed(name, known), tensor


def _renamed(name: str, known: _Type) -> str:
    module, _, projection = name.removesuffix(".weight").rpartition(".")
    return f"{module}.{known.names[projection]}.weight" if projection in known.names else name
