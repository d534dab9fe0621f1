# SPDX-License-Identifier: Apache-2.0
"""A run of TRL's own DPOTrainer or GRPOTrainer, by a file that says how; bench/trl_trainers.py starts it.

    python bench/parts/objectives/trl_run.py SPECIFICATION.json

The trainers are as TRL has them; what is added here looks at the loss, and gives completions.
"""

import json
import sys
from pathlib import Path

import torch
from datasets import Dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer


def settings(given: dict) -> dict:
    """What both have in common: as mebp train has it."""
    return {
        "output_dir": given["scratch"],
        "max_steps": given["steps"],
        "per_device_train_batch_size": given["batch"],
        "learning_rate": given["lr"],
        "lr_scheduler_type": "constant",
        "max_grad_norm": given["clip"],
        "beta": given["beta"],
        "optim": "adamw_torch",
        "bf16": False,
        "use_cpu": True,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "logging_first_step": True,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }


def model_of(given: dict) -> PeftModel:
    base = AutoModelForCausalLM.from_pretrained(
        given["model"],
        dtype=torch.float32,
        attn_implementation=given["attention"].removeprefix("float64, "),
        trust_remote_code=False,
        use_safetensors=True,
    )
    model = PeftModel.from_pretrained(base, given["adapter"], is_trainable=True)
    if given["attention"].startswith("float64"):
        from mebp.verification.reference import compute_norms_in_own_type

        for parameter in model.parameters():  # not the rotary frequencies, which are float32 in every model
            parameter.data = parameter.data.double()
        compute_norms_in_own_type(base)
    return model


def dpo(given: dict) -> DPOTrainer:
    options = DPOConfig(**settings(given), max_length=None, train_sampling_strategy="sequential")
    return DPOTrainer(
        model_of(given),
        args=options,
        train_dataset=Dataset.from_list(given["data"]),
        processing_class=AutoTokenizer.from_pretrained(given["model"], trust_remote_code=False),
    )


class Recorded:
    """A rollout_func that keeps what another one writes, or gives it again."""

    def __init__(self, given: dict) -> None:
        self.rollouts, self._writes = given.get("rollouts") or [], not given.get("rollouts")
        self._given, self._calls = given, 0
        if self._writes:
            import mebp
            import mebp.trl

            self._write = mebp.trl.rollout(mebp.Session(given["bundle"], forward_only=True))

    def __call__(self, prompts: list, trainer: GRPOTrainer) -> dict[str, list]:
        if self._writes:
            self.rollouts.append(self._write(prompts, trainer))
        made = self.rollouts[self._calls]
        self._calls += 1
        return dict(made)


def grpo(given: dict) -> GRPOTrainer:
    sys.path.append(str(Path(given["reward"]).parent))
    module = __import__(Path(given["reward"]).stem)
    options = GRPOConfig(
        **settings(given),
        num_generations=given["group"],
        num_iterations=given["iterations"],
        steps_per_generation=1,
        max_completion_length=given["room"],
        temperature=given["temperature"],
        shuffle_dataset=False,
    )
    function = Recorded(given)
    trainer = GRPOTrainer(
        model_of(given),
        reward_funcs=getattr(module, given["function"]),
        args=options,
        train_dataset=Dataset.from_list(given["data"]),
        processing_class=AutoTokenizer.from_pretrained(given["model"], trust_remote_code=False),
        rollout_func=function,
    )
    trainer.recorded = function
    return trainer


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    torch.manual_seed(0)
    torch.set_num_threads(given["threads"])
    trainer = {"dpo": dpo, "grpo": grpo}[given["objective"]](given)
    trainer.train()
    steps = [entry for entry in trainer.state.log_history if "loss" in entry]
    rollouts = trainer.recorded.rollouts if given["objective"] == "grpo" else None
    Path(given["out"]).write_text(json.dumps({"steps": steps, "rollouts": rollouts}))


if __name__ == "__main__":
    main()
