# SPDX-License-Identifier: Apache-2.0
"""What is in a bundle, without a session: nothing of the model is mapped."""

import json
import os
from collections.abc import Mapping

from mebp.errors import Error, translate_errors
from mebp.exporter.naming import title
from mebp.extension import load_runtime
from mebp.files import parse_object, user_path
from mebp.remote_adapters import kind_of

_ADVICE = "the bundle is damaged, compile it again"


def inspect(path: str | os.PathLike[str]) -> dict:
    """The manifest, the model, the plan, blocks, programs, weights and trainables of the bundle folder `path`.

    Sizes are bytes. Raises mebp.Error where the bundle is missing or damaged.
    """
    return describe(load_runtime().Bundle(os.fspath(user_path(path))))


def describe(bundle: object) -> dict:
    """The same of a bundle that the runtime has opened."""
    with translate_errors("manifest.json: is not UTF-8", _ADVICE, UnicodeDecodeError):
        manifest = bundle.manifest()
    return {"manifest": parse_object("manifest.json", manifest, _ADVICE), **json.loads(bundle.describe())}


def model_title(description: dict) -> str:
    """The model's name, of a folder its last part."""
    return title(description["model"]["name"])


def layers_of(description: dict) -> str | None:
    """Those that --lora-layers chose, as it takes them; None for all."""
    lora = description["model"]["lora"]
    first, count = lora["first_layer"], lora["layer_count"]
    return f"{first}-{first + count - 1}" if count else None


def describe_trained(description: dict) -> str:
    """What a bundle trains, in a few words."""
    lora, remote = description["model"]["lora"], _remote(description)
    on = f"on {', '.join([*lora['target_modules'], *lora['target_parameters']])}"
    if layers := layers_of(description):
        on += f" of layers {layers}"
    if remote:
        title, down, up = remote
        return f"{title} of ranks {down} down and {up} up, {on}"
    if lora["rank"]:
        values = any(trained["name"] == "value_head.weight" for trained in description["trainables"])
        drops = f", dropout {share:g}" if (share := dropout_of(description)) else ""
        return f"LoRA of rank {lora['rank']}, {_scale(lora)}{drops}, {on}{' and a value head' if values else ''}"
    return f"{len(description['trainables'])} of the model's own tensors"


def dropout_of(description: dict) -> float:
    """The share of what adapters read that a step zeroes."""
    return description["model"]["lora"].get("dropout", 0)


def adapted_layers(description: dict) -> tuple[int, int]:
    """How many of the layers have something that is trained, and how many layers there are."""
    layers = [block for block in description["blocks"] if block["kind"] == "layer"]
    return sum(block["trainable_elements"] > 0 for block in layers), len(layers)


def few_adapted(description: dict) -> str | None:
    """What to say where adapters are in fewer than half of the layers: names may be those of one kind of layers."""
    adapted, layers = adapted_layers(description)
    if not description["model"]["lora"]["rank"] or 2 * adapted >= layers:
        return None
    return f"warning: {adapted} of {layers} layers have adapters; with --lora-targets all-linear, each layer has"


def describe_shortly(description: dict) -> str:
    """The same in fewer."""
    lora, remote = description["model"]["lora"], _remote(description)
    if remote:
        title, down, up = remote
        return f"{title} ranks {down} down {up} up"
    return f"LoRA rank {lora['rank']} {_scale(lora)}" if lora["rank"] else "own weights"


def _scale(lora: Mapping) -> str:
    stabilized = lora["rslora_alpha"]
    return f"alpha {stabilized or lora['alpha']:g}{' over the root of the rank' if stabilized else ''}"


def _remote(description: dict) -> tuple[str, int, int] | None:
    """What a bundle's adapters are called and their ranks, where what is trained lies between a frozen A and B."""
    for trained in description["trainables"]:
        if kind := kind_of(trained["name"]):
            return kind.title, *kind.middle.ranks(trained["rows"], trained["columns"])
    return None


def storage_options(description: dict) -> dict:
    """What mebp.compile was given of "weights", "embedding_weights", "weights_for" and "precision", as the manifest
    says."""
    options = description["manifest"].get("options")
    names = ("weights", "embedding_weights", "precision")
    rules = options.get("weights_for") if isinstance(options, dict) else None
    stated = isinstance(rules, list) and all(isinstance(rule, str) and "=" in rule for rule in rules)
    if not stated or not all(isinstance(options.get(name), str) for name in names):
        raise Error(f"manifest.json: does not say how the weights are stored; {_ADVICE}")
    return {name: options[name] for name in names} | {"weights_for": dict(rule.rsplit("=", 1) for rule in rules)}
