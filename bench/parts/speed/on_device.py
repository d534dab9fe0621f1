# SPDX-License-Identifier: Apache-2.0
"""A step on one device beside mlx-lm's LoRA and PEFT on the same machine, in turns as in cell.py."""

import importlib.metadata
import importlib.util
from contextlib import ExitStack
from pathlib import Path

from parts.speed.cell import CHECKPOINTING, MEBP, Run, say, steps, take_turns
from parts.speed.contender import contender
from parts.speed.models import Model

import mebp

MLX_LM, MLX_LM_CHECKPOINTING = "mlx-lm, LoRA", "mlx-lm, LoRA, checkpointing"
NEEDED = {"mlx-lm": ["mlx_lm"], "PEFT": ["torch", "peft", "transformers"]}  # the modules of each other system


def describe(device: str) -> dict:
    """What is compared here. Raises mebp.Error where the device is not there."""
    known = {one.name: one for one in mebp.devices()}
    if device not in known:
        raise mebp.Error(f"there is no device '{device}'; choose {', '.join(known)}")
    if not known[device].is_there:
        raise mebp.Error(known[device].description)
    others = {name: version_of(modules) for name, modules in NEEDED.items()}
    return {
        "name": device,
        "description": known[device].description,
        "others": {name: version for name, version in others.items() if version},
        "torch": torch_device(device) if others["PEFT"] else "",
    }


def missing(described: dict) -> list[str]:
    """A line for each system that is not compared."""
    packages = {"mlx-lm": "mlx-lm", "PEFT": "torch peft transformers"}
    return [
        f"{name} is not compared: it is not installed; pip install {package}"
        for name, package in packages.items()
        if name not in described["others"]
    ]


def version_of(modules: list[str]) -> str:
    """Of what these belong to, as people say it; empty where one is not there."""
    if not all(importlib.util.find_spec(module) for module in modules):
        return ""
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in modules if name != "transformers")


def torch_device(device: str) -> str:
    """torch's name for what `device` is here."""
    import torch

    if device != "mlx":
        return "cpu"
    return "mps" if torch.backends.mps.is_available() else "cuda" if torch.cuda.is_available() else "cpu"


def contenders(model: Model, bundle: Path, tokens: int, run: Run, described: dict) -> dict[str, list[str]]:
    """The commands of the processes that load once, by their names in tables."""
    device = described["name"]
    found = {MEBP: steps("mebp_steps", run.threads, device, "adamw", bundle, tokens)}
    if "mlx-lm" in described["others"]:
        lora = steps("mlx_steps", "gpu" if device == "mlx" else "cpu", model.weights, tokens)
        found |= {MLX_LM: lora, MLX_LM_CHECKPOINTING: [*lora, "checkpointing"]}
    if "PEFT" in described["others"]:
        peft = steps("torch_steps", run.threads, described["torch"], "peft", model.weights, tokens)
        found |= {"PEFT": peft, CHECKPOINTING: [*peft, "checkpointing"]}
    return found


def measure_on_device(model: Model, tokens: int, run: Run, described: dict, folder: Path) -> dict:
    """Everything as it was measured, for JSON: `answers` has one of each round for each who took turns."""
    bundle = model.compile(folder / "speed.mebp", tokens)
    what = f"{model.name}, {tokens} tokens"
    with ExitStack() as stack:
        turns = {}
        for name, command in contenders(model, bundle, tokens, run, described).items():
            say(f"{what}: {name}")
            turns[name] = stack.enter_context(contender(command))
            turns[name]()  # warms up
        answers = take_turns(turns, run, what)
    return {"model": model.name, "tokens": tokens, "threads": run.threads, "answers": answers}
