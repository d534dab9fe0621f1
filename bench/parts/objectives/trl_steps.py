# SPDX-License-Identifier: Apache-2.0
"""TRL's side of bench/objectives.py: a process in which its own trainer makes a step whenever it is told to.

    PYTHONPATH=bench python -m parts.objectives.trl_steps THREADS FOLDER DATA SCRATCH dpo|grpo [BATCHES]

FOLDER is a transformers model. bf16, LoRA r=8 on all linear layers by PEFT, gradient checkpointing, AdamW. dpo: a pair
a step, the reference's log-probabilities computed beforehand. grpo: the completions that DATA has, as many at once as a
group has, or in so many BATCHES whose gradients add up.
"""

import json
import os
import sys
import threading
import traceback
from pathlib import Path

import torch
from datasets import Dataset
from parts.speed.contender import serve
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer

NEVER = 10**6


class Turns(TrainerCallback):
    """Holds the trainer before each of its steps."""

    def __init__(self) -> None:
        self._may_begin, self._has_ended = threading.Semaphore(0), threading.Semaphore(0)

    def on_step_begin(self, *_: object, **__: object) -> None:
        self._may_begin.acquire()

    def on_step_end(self, *_: object, **__: object) -> None:
        self._has_ended.release()

    def step(self) -> None:
        self._may_begin.release()
        self._has_ended.acquire()


def settings(scratch: str) -> dict:
    return {"output_dir": scratch, "max_steps": NEVER, "lr_scheduler_type": "constant", "optim": "adamw_torch",
            "bf16": False, "use_cpu": True, "gradient_checkpointing": True, "logging_steps": NEVER,
            "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
            "dataloader_pin_memory": False}  # fmt: skip


def model_and_adapter(folder: str) -> dict:
    return {
        "model": AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, trust_remote_code=False, use_safetensors=True
        ),
        "peft_config": LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"),
        "processing_class": AutoTokenizer.from_pretrained(folder, trust_remote_code=False),
    }


def dpo(folder: str, data: list[dict], scratch: str) -> DPOTrainer:
    options = DPOConfig(
        **settings(scratch), per_device_train_batch_size=1, max_length=None, precompute_ref_log_probs=True
    )
    return DPOTrainer(**model_and_adapter(folder), args=options, train_dataset=Dataset.from_list(data))


def grpo(folder: str, data: list[dict], scratch: str, batches: str = "1") -> GRPOTrainer:
    given = model_and_adapter(folder)
    (line,) = data
    count = len(line["completions"])
    written = {
        "prompt_ids": [given["processing_class"](line["prompt"])["input_ids"]] * count,
        "completion_ids": [each["ids"] for each in line["completions"]],
        "logprobs": [[0.0] * len(each["ids"]) for each in line["completions"]],
        "given": [each["reward"] for each in line["completions"]],
    }
    options = GRPOConfig(
        **settings(scratch),
        per_device_train_batch_size=count // int(batches),
        gradient_accumulation_steps=int(batches),
        num_generations=count,
        max_completion_length=max(map(len, written["completion_ids"])),
    )
    return GRPOTrainer(
        **given,
        reward_funcs=lambda given, **_: given,
        args=options,
        train_dataset=Dataset.from_list([{"prompt": line["prompt"]}]),
        rollout_func=lambda prompts, trainer: dict(written),
    )


def main() -> None:
    threads, folder, data, scratch, kind, *batches = sys.argv[1:]
    lines = [json.loads(line) for line in Path(data).read_text().splitlines()]
    trainer = {"dpo": dpo, "grpo": grpo}[kind](folder, lines, scratch, *batches)
    turns = Turns()
    trainer.add_callback(turns)

    def train() -> None:
        torch.set_num_threads(int(threads))  # of this thread
        try:
            trainer.train()
        except BaseException:
            traceback.print_exc()
            os._exit(1)  # a step that nobody makes would be waited for

    threading.Thread(target=train, daemon=True).start()
    serve(turns.step)


if __name__ == "__main__":
    main()
