# SPDX-License-Identifier: Apache-2.0
"""PEFT's form: adapter_config.json and adapter_model.safetensors, with A [rank, in] and B [out, rank]."""

import json
import math
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mebp.adapters.adapter import Adapter, Layer, paired, read_base, read_scale, short_names, shown
from mebp.adapters.keys import TENSORS, check_prefix, plain_names
from mebp.adapters.patterns import LayerPatterns
from mebp.errors import Error
from mebp.exporter.hub_files import name_on_hub
from mebp.exporter.text_parts import text_part_of_names
from mebp.extension import load_runtime
from mebp.files import own_file, read_json
from mebp.gguf.architectures import ARCHITECTURES
from mebp.tensor_file import read_tensors, write_tensors

CONFIG = "adapter_config.json"
_ADVICE = "save the adapter again"
_FACTOR = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")
# What changes what is computed, and is not in the tensors' own names; each is off where it is null, false or empty.
_OTHER_KINDS = ("alora_invocation_tokens", "layer_replication", "target_parameters", "use_bdlora", "use_dora",
                "use_qalora", "arrow_config", "monteclora_config")  # fmt: skip
# PiSSA and its like train against base weights that they have changed.
_PLAIN_STARTS = (True, False, None, "gaussian", "eva", "orthogonal")


def read_peft(folder: Path) -> Adapter:
    config = read_json(own_file(folder / CONFIG), _ADVICE)
    kind = config.get("peft_type")
    if kind != "LORA":
        raise Error(f"{folder / CONFIG}: peft_type is {shown(kind)}, and only LORA is supported; train such an adapter")
    for name in _OTHER_KINDS:
        if config.get(name):
            raise Error(f"{folder / CONFIG}: {name} is not supported; train the adapter without it")
    if config.get("trainable_token_indices"):
        raise Error(f"{folder / CONFIG}: has rows of new tokens (trainable_token_indices), which no other form has; "
                    "mebp merge writes the model with them")  # fmt: skip
    if modules := config.get("modules_to_save"):
        raise Error(f"{folder / CONFIG}: has modules whole (modules_to_save {shown(modules)}), which no other form "
                    "has; mebp merge writes the model with them")  # fmt: skip
    names_of_targets(config, folder / CONFIG)
    if (start := config.get("init_lora_weights")) not in _PLAIN_STARTS:
        raise Error(
            f"{folder / CONFIG}: init_lora_weights is '{shown(start)}', which changes the base weights; "
            "save the adapter with its path_initial_model_for_weight_conversion"
        )
    if not (folder / TENSORS).is_file() and (folder / "adapter_model.bin").is_file():
        raise Error(f"{folder}: weights only as .bin; save the adapter as safetensors")
    factors: dict[str, dict[str, np.ndarray]] = {}
    tensors = read_tensors(own_file(folder / TENSORS), _ADVICE)
    plain = plain_names(folder / TENSORS, tensors)
    for name, values in tensors.items():
        check_prefix(folder / TENSORS, name, plain[name])
        match = _FACTOR.fullmatch(plain[name])
        if match is None:
            raise Error(f"{folder / TENSORS}: has '{name}', and only LoRA of linear layers is supported; train or save "
                        "the adapter without it")  # fmt: skip
        factors.setdefault(match[1], {})[match[2].lower()] = values
    alphas = _Alphas(folder / CONFIG, config)
    part = text_part_of_names(factors)
    layers = {part.text_name(name) if part else name: Layer(a, b, alphas.scale(name, a.shape[0]))
              for name, (a, b) in paired(folder / TENSORS, factors).items()}  # fmt: skip
    return Adapter(folder, layers, _base(folder / CONFIG, config), part)


def names_of_targets(config: Mapping, file: Path) -> list[str] | None:
    """What target_modules in an adapter's settings names; None where it says nothing. Which layers are adapted is what
    the tensors say. Raises mebp.Error for a pattern, but for those that mebp writes itself."""
    targets = config.get("target_modules")
    if isinstance(targets, list) and all(isinstance(name, str) for name in targets):
        return targets
    if not targets or targets == "all-linear":
        return [targets] if targets else None
    is_text = isinstance(targets, str) and targets.isascii()
    names = load_runtime().names_of_target_pattern(targets) if is_text else None
    if names is None:
        raise Error(
            f"{file}: target_modules is '{shown(targets)}', a pattern that is not read; put in its place a list of the "
            'layers\' names, such as ["q_proj", "v_proj"]'
        )
    return names


def _base(file: Path, config: Mapping) -> str | None:
    name, revision = read_base(config, "base_model_name_or_path", file), config.get("revision")
    both = f"{name}@{revision}"
    return both if revision and name and name_on_hub(both) else name


class _Alphas:
    """What lora_alpha and alpha_pattern say. Ranks need no rank_pattern: the tensors have them."""

    def __init__(self, file: Path, config: Mapping) -> None:
        if config.get("lora_alpha") is None:
            raise Error(f"{file}: lacks the number lora_alpha; {_ADVICE}")
        self._alpha = read_scale(config["lora_alpha"], f"{file}: lora_alpha", _ADVICE)
        patterns = config.get("alpha_pattern") or {}
        if not isinstance(patterns, dict):
            raise Error(f"{file}: alpha_pattern is {reprlib.repr(patterns)}, which is not an object; {_ADVICE}")
        self._patterns = LayerPatterns(f"{file}: alpha_pattern", patterns)
        self._of_pattern = {
            pattern: read_scale(value, f"{file}: alpha_pattern of '{shown(pattern)}'", _ADVICE)
            for pattern, value in patterns.items()
        }
        self._root = bool(config.get("use_rslora"))

    def scale(self, layer: str, rank: int) -> float:
        pattern = self._patterns.first_match(layer)
        alpha = self._alpha if pattern is None else self._of_pattern[pattern]
        return alpha / (math.sqrt(rank) if self._root else rank)


def write_peft(adapter: Adapter, folder: Path, transposed: bool = False) -> None:
    """transposed: whether the base model keeps the weights of these layers as [in, out], as GPT-2 does."""
    rank, scale = adapter.rank, adapter.scale
    alpha = scale * rank
    tensors = {}
    called = adapter.part.whole_name if adapter.part else str
    for name, layer in adapter.layers.items():
        tensors[f"base_model.model.{called(name)}.lora_A.weight"] = layer.a
        tensors[f"base_model.model.{called(name)}.lora_B.weight"] = adapter.b_for(name, alpha / layer.rank)
    ranks = {called(name): layer.rank for name, layer in adapter.layers.items() if layer.rank != rank}
    hub = name_on_hub(adapter.base or "")
    targets = _targets(short_names(adapter.layers))
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": hub.id if hub else adapter.base,
        "revision": hub.revision if hub else None,
        "r": rank,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": load_runtime().target_pattern(adapter.part.module, targets) if adapter.part else targets,
        "rank_pattern": ranks,
        "fan_in_fan_out": transposed,
        "inference_mode": True,
    }
    numbers = adapter.numbers
    if not adapter.part and numbers != list(range(len(numbers))):  # beside a pattern, PEFT takes none
        config["layers_to_transform"] = numbers
    shapes = {name: values.shape for name, values in tensors.items()}
    write_tensors(folder / TENSORS, shapes, tensors.values(), "f32")
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _targets(names: list[str]) -> list[str]:
    """Last parts alone, as is usual, but for one that a module has which is not adapted, as c_proj of GPT-2 may be."""
    others = {
        module.rpartition(".")[2]
        for architecture in ARCHITECTURES.values()
        if architecture.modules >= set(names)
        for module in architecture.inner_modules - set(names)
    }
    last = {name: name.rpartition(".")[2] for name in names}
    return sorted({name if last[name] in others else last[name] for name in names})
