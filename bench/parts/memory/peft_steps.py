# SPDX-License-Identifier: Apache-2.0
"""Trains with PEFT for a few steps: a process that bench/memory.py looks at.

    python bench/parts/memory/peft_steps.py FOLDER LENGTH STEPS

FOLDER is a transformers model. bf16, LoRA r=8 on all linear layers, gradient checkpointing, SGD, batch 1.
"""

import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


def main() -> None:
    folder, length, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, trust_remote_code=False, use_safetensors=True
    )
    model.config.use_cache = False
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    model.train()
    optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=2e-4)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        ids = torch.randint(0, model.config.vocab_size, (1, length), generator=generator)
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
