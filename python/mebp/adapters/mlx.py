# SPDX-License-Identifier: Apache-2.0
"""MLX-LM's form: adapter_config.json and adapters.safetensors, with lora_a [in, rank] and lora_b [rank, out]."""

import json
import math
from pathlib import Path

import numpy as np

from mebp.adapters.adapter import Adapter, Layer, paired, short_names
from mebp.errors import Error
from mebp.exporter.naming import HubName
from mebp.files import read_json
from mebp.tensor_file import read_tensors, write_tensors

CONFIG, TENSORS = "adapter_config.json", "adapters.safetensors"
_ADVICE = "save the adapter again"
# What MLX-LM calls modules otherwise than transformers does.
_RENAMED = ("transformer.", "model.")  # of GPT-2
_EMBEDDINGS = ("embed_tokens", "wte", "wpe")


def read_mlx(folder: Path) -> Adapter:
    config = read_json(folder / CONFIG, _ADVICE)
    kind = config.get("fine_tune_type", "lora")
    if kind != "lora":
        raise Error(f"{folder / CONFIG}: fine_tune_type is {kind}, and only lora is supported; train such an adapter")
    parameters = config.get("lora_parameters")
    scale = parameters.get("scale") if isinstance(parameters, dict) else None
    if not isinstance(scale, int | float) or isinstance(scale, bool) or not math.isfinite(scale):
        raise Error(f"{folder / CONFIG}: lacks the number scale in lora_parameters; {_ADVICE}")
    factors: dict[str, dict[str, np.ndarray]] = {}
    for name, values in read_tensors(folder / TENSORS, _ADVICE).items():
        module, _, factor = name.rpartition(".")
        if factor not in ("lora_a", "lora_b") or module.rpartition(".")[2] in _EMBEDDINGS:
            raise Error(f"{folder / TENSORS}: has '{name}', and only LoRA of linear layers is supported; train the "
                        "adapter without it")  # fmt: skip
        factors.setdefault(_from_mlx(module), {})[factor[-1]] = values.T
    found = paired(folder / TENSORS, factors)
    layers = {name: Layer(a, b, float(scale)) for name, (a, b) in found.items()}
    return Adapter(folder, layers, config.get("model") or None)


def write_mlx(adapter: Adapter, folder: Path) -> None:
    rank, scale = adapter.rank, adapter.scale
    tensors, names = {}, []
    for name, layer in adapter.layers.items():
        module = _to_mlx(adapter.source, name)
        names.append(module)
        # All layers have one rank there; zeros add nothing.
        missing = rank - layer.rank
        tensors[f"{module}.lora_a"] = np.pad(layer.a.T, ((0, 0), (0, missing)))
        tensors[f"{module}.lora_b"] = np.pad(layer.b_for(scale).T, ((0, missing), (0, 0)))
    config = {
        "fine_tune_type": "lora",
        "model": hub.id if (hub := HubName.of(adapter.base or "")) else adapter.base,  # it has no field for a revision
        "num_layers": -1,  # all
        "lora_parameters": {"rank": rank, "scale": scale, "dropout": 0.0, "keys": short_names(names)},
    }
    shapes = {name: values.shape for name, values in tensors.items()}
    write_tensors(folder / TENSORS, shapes, tensors.values(), "f32")
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


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
