# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's form: one GGUF file with blk.N.NAME.weight.lora_a [rank, in] and .lora_b [out, rank]."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from mebp.adapters.adapter import Adapter, Layer, paired
from mebp.errors import Error
from mebp.extras import need_packages
from mebp.gguf.architectures import architecture_named, architecture_of
from mebp.gguf.container import read_container

_ADVICE = "convert the adapter again"
_ALPHA = "adapter.lora.alpha"


def read_gguf(file: Path, config: Callable[[], Mapping]) -> Adapter:
    """config: gives the base model's config.json, and is called only where the heads have to be known."""
    container = read_container(file)
    kind = container.metadata.get("general.type"), container.metadata.get("adapter.type")
    if kind != ("adapter", "lora"):
        raise Error(f"{file}: is not a LoRA adapter (general.type is {kind[0]}, adapter.type {kind[1]}); give one")
    architecture = architecture_named(container.metadata.get("general.architecture"), f"{file}")
    alpha = container.number(_ALPHA)
    if not isinstance(alpha, float) or not np.isfinite(alpha):
        raise Error(f"{file}: {_ALPHA} is not a number; {_ADVICE}")
    factors: dict[str, dict[str, np.ndarray]] = {}
    for tensor in container.tensors:
        theirs, _, factor = tensor.name.rpartition(".")
        module = architecture.from_gguf(theirs.removesuffix(".weight"))
        if factor not in ("lora_a", "lora_b") or module is None or theirs.startswith("token_embd"):
            raise Error(f"{file}: has '{tensor.name}', and only LoRA of linear layers is supported; train the adapter "
                        "without it")  # fmt: skip
        factors.setdefault(module, {})[factor[-1]] = container.values(tensor)
    layers = {}
    for module, (a, b) in paired(file, factors).items():
        if architecture.is_paired(module):
            order = architecture.row_order(module, len(b), config())
            b = b[np.argsort(order)]
        # llama.cpp multiplies by one where alpha is zero.
        layers[module] = Layer(a, b, alpha / a.shape[0] if alpha else 1.0)
    return Adapter(file, layers, None)


def write_gguf(adapter: Adapter, config: Mapping, file: Path) -> None:
    need_packages("writing GGUF", "gguf", "gguf")
    import gguf

    architecture = architecture_of(config.get("model_type"), f"{adapter.source}")
    alpha = adapter.scale * adapter.rank
    writer = gguf.GGUFWriter(file, architecture.name)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32(_ALPHA, alpha)
    alpha = float(np.float32(alpha))  # as it is read
    for module, layer in adapter.layers.items():
        theirs = architecture.to_gguf(module)
        if theirs is None:
            raise Error(f"{adapter.source}: adapts '{module}', which GGUF has no name for in architecture "
                        f"'{architecture.name}'; train the adapter without it")  # fmt: skip
        b = layer.b_for(alpha / layer.rank)
        order = architecture.row_order(module, len(b), config)
        writer.add_tensor(f"{theirs}.weight.lora_a", np.ascontiguousarray(layer.a))
        writer.add_tensor(f"{theirs}.weight.lora_b", np.ascontiguousarray(b if order is None else b[order]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
