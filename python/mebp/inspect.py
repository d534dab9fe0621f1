# SPDX-License-Identifier: Apache-2.0
"""What is in a bundle, without a session: nothing of the model is mapped."""

import json
import os

from mebp.errors import Error, translate_errors
from mebp.extension import load_runtime
from mebp.files import parse_object, user_path

_ADVICE = "the bundle is damaged, compile it again"


def inspect(path: str | os.PathLike[str]) -> dict:
    """The manifest, the model, the plan, blocks, programs, weights and trainables of the bundle folder `path`.

    Sizes are bytes. Raises mebp.Error where the bundle is missing or damaged.
    """
    return describe(load_runtime().Bundle(os.fspath(user_path(path))))


def describe(bundle: object) -> dict:
    """The same of a bundle that the runtime has opened."""
    with translate_errors("manifest.json", _ADVICE, UnicodeDecodeError):
        manifest = bundle.manifest()
    return {"manifest": parse_object("manifest.json", manifest, _ADVICE), **json.loads(bundle.describe())}


def describe_trained(description: dict) -> str:
    """What a bundle trains, in a few words."""
    lora = description["model"]["lora"]
    if lora["rank"]:
        return f"LoRA of rank {lora['rank']}, alpha {lora['alpha']:g}, on {', '.join(lora['target_modules'])}"
    return f"{len(description['trainables'])} of the model's own tensors"


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
