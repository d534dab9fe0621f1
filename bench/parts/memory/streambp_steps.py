# SPDX-License-Identifier: Apache-2.0
"""Trains with the StreamBP package for a few steps: a process that bench/memory.py looks at.

    PYTHON bench/parts/memory/streambp_steps.py FOLDER LENGTH STEPS CHECKOUT

FOLDER is a transformers model, CHECKOUT the repository of the package, PYTHON one with the versions that it asks for.
bf16, LoRA r=8 on all linear layers by PEFT, SGD, batch 1, in chunks as its readme has them: a third
of the sequence, and 100 rows of logits.
"""

import importlib.util
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

LOGIT_ROWS = 100


def load_package(checkout: Path):
    """Its one module that is needed; the others ask for TRL."""
    spec = importlib.util.spec_from_file_location("stream_model", checkout / "src" / "streambp" / "stream_model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    folder, length, steps, checkout = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    model = AutoModelForCausalLM.from_pretrained(
        folder, torch_dtype=torch.bfloat16, trust_remote_code=False, use_safetensors=True
    )
    model.config.use_cache = False
    lora = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    model = load_package(checkout).StreamModel(
        get_peft_model(model, lora).get_base_model(),
        gradient_accumulation_steps=1,
        logits_chunk_size=LOGIT_ROWS,
        checkpoint_chunk_size=-(-length // 3),
    )
    model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=2e-4)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        ids = torch.randint(0, model.config.vocab_size, (1, length), generator=generator)
        model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids, use_cache=False)  # its backward, too
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
