# SPDX-License-Identifier: Apache-2.0
"""MLX-LM's form: adapter_config.json and adapters.safetensors, with lora_a [in, rank] and lora_b [rank, out]."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mebp.adapters.adapter import Adapter, Layer, paired, read_base, read_scale, short_names, shown
from mebp.errors import Error
from mebp.exporter.hub_files import name_on_hub
from mebp.exporter.text_parts import text_part_of_names
from mebp.files import check_space, own_file, read_json
from mebp.tensor_file import read_tensors, write_tensors

CONFIG, TENSORS = "adapter_config.json", "adapters.safetensors"
_ADVICE = "save the adapter again"
# What MLX-LM calls modules otherwise than transformers does.
_RENAMED = ("transformer.", "model.")  # of GPT-2
_TEXT = "language_model."  # what takes more than text has its text there, whatever transformers' class is called
_EMBEDDINGS = ("embed_tokens", "wte", "wpe")


def read_mlx(folder: Path) -> Adapter:
    config = read_json(own_file(folder / CONFIG), _ADVICE)
    kind = config.get("fine_tune_type", "lora")
    if kind != "lora":
        raise Error(
            f"{folder / CONFIG}: fine_tune_type is {shown(kind)}, and only lora is supported; train such an adapter"
        )
    parameters = config.get("lora_parameters")
    scale = parameters.get("scale") if isinstance(parameters, dict) else None
    if scale is None:
        raise Error(f"{folder / CONFIG}: lacks the number scale in lora_parameters; {_ADVICE}")
    scale = read_scale(scale, f"{folder / CONFIG}: scale in lora_parameters", _ADVICE)
    factors: dict[str, dict[str, np.ndarray]] = {}
    for name, values in read_tensors(own_file(folder / TENSORS), _ADVICE).items():
        module, _, factor = name.rpartition(".")
        if factor not in ("lora_a", "lora_b") or module.rpartition(".")[2] in _EMBEDDINGS:
            raise Error(f"{folder / TENSORS}: has '{name}', and only LoRA of linear layers is supported; train the "
                        "adapter without it")  # fmt: skip
        factors.setdefault(_from_mlx(module), {})[factor[-1]] = values.T
    found = paired(folder / TENSORS, factors)
    layers = {name.removeprefix(_TEXT): Layer(a, b, scale) for name, (a, b) in found.items()}
    part = text_part_of_names(found)
    return Adapter(folder, layers, read_base(config, "model", folder / CONFIG), part)


def write_mlx(adapter: Adapter, folder: Path, num_layers: int = -1) -> None:
    """num_layers: how many last layers MLX-LM adapts, -1 for all. Where one has no factors here, it adds nothing."""
    rank, scale = adapter.rank, adapter.scale
    prefix = _TEXT if adapter.part else ""
    names = [prefix + _to_mlx(adapter.source, name) for name in adapter.layers]
    shapes = {}
    for module, layer in zip(names, adapter.layers.values(), strict=True):
        shapes[f"{module}.lora_a"] = layer.a.shape[1], rank
        shapes[f"{module}.lora_b"] = rank, layer.b.shape[0]
    check_space(folder, 4 * sum(map(math.prod, shapes.values())), f"{adapter.source.name} for MLX-LM")
    config = {
        "fine_tune_type": "lora",
        "model": hub.id if (hub := name_on_hub(adapter.base or "")) else adapter.base,  # it has no field for a revision
        "num_layers": num_layers,
        "lora_parameters": {"rank": rank, "scale": scale, "dropout": 0.0, "keys": short_names(names)},
    }
    tensors = _padded(adapter, rank, scale)
    write_tensors(folder / TENSORS, shapes, tensors, "f32")
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _padded(adapter: Adapter, rank: int, scale: float) -> Iterator[np.ndarray]:
    """One at a time, for a single large rank may make all others large; zeros add nothing."""
    for name, layer in adapter.layers.items():
        missing = rank - layer.rank
        yield np.pad(layer.a.T, ((0, 0), (0, missing)))
        yield np.pad(adapter.b_for(name, scale).T, ((0, missing), (0, 0)))


def _to_mlx(source: Path, module: str) -> str:
    theirs, ours = _RENAMED
    if module.startswith(theirs):
        return ours + module.removeprefix(theirs)
    if module == "lm_head" or module.startswith("model.layers."):
        return module
    raise Error(f"{source}: adapts '{module}', which MLX-LM's form has no name for here; train the adapter without it")


def _from_mlx(module: str) -> str:
    theirs, ours = _RENAMED
    return theirs + module.removeprefix(ours) if module.startswith(f"{ours}h.") else module
