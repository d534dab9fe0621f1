# SPDX-License-Identifier: Apache-2.0
"""Trains the matrices of a model's layers with torch for a few steps: a process that bench/galore_memory.py looks at.

    python bench/parts/memory/whole_model_steps.py FOLDER LENGTH STEPS adamw|galore|galore-by-layer

FOLDER is a transformers model. bf16, gradient checkpointing, batch 1. galore is galore-torch of rank 64, by-layer with
an optimizer for each matrix, which takes its gradient as soon as it is there, as its authors train 7B.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from parts.published_galore import load_adamw

PROJECTION = {"rank": 64, "update_proj_gap": 200, "scale": 0.25, "proj_type": "std"}


def make_optimizers(way: str, parameters: list[torch.nn.Parameter]) -> list[torch.optim.Optimizer]:
    """Those that a step has to call."""
    if way == "adamw":
        return [torch.optim.AdamW(parameters, lr=1e-4)]
    galore = load_adamw().AdamW

    def projecting(some: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return galore([{"params": some} | PROJECTION], lr=1e-4, no_deprecation_warning=True)

    if way == "galore":
        return [projecting(parameters)]
    each = {parameter: projecting([parameter]) for parameter in parameters}

    def update(parameter: torch.nn.Parameter) -> None:
        each[parameter].step()
        parameter.grad = None

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(update)
    return []


def main() -> None:
    folder, length, steps, way = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, trust_remote_code=False, use_safetensors=True
    )
    model.config.use_cache = False
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    model.requires_grad_(False)
    parameters = [module.weight for module in model.model.layers.modules() if isinstance(module, torch.nn.Linear)]
    for parameter in parameters:
        parameter.requires_grad_()
    model.train()
    optimizers = make_optimizers(way, parameters)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        ids = torch.randint(0, model.config.vocab_size, (1, length), generator=generator)
        model(input_ids=ids, labels=ids).loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
