# SPDX-License-Identifier: Apache-2.0
"""Other systems' peaks, each in a process of its own; bench/memory.py runs it."""

import sys
from dataclasses import dataclass
from pathlib import Path

from parts.process_memory import Memory, watch
from parts.runs import STEPS
from parts.shapes import Hybrid, Shape


@dataclass(frozen=True)
class System:
    """`python` runs `script` FOLDER LENGTH STEPS `arguments`."""

    name: str
    python: str
    script: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class OtherCell:
    system: str
    shape: str
    length: int
    polled: Memory


PEFT = System("PEFT", sys.executable, "peft_steps.py")


def streambp(python: str, checkout: Path) -> System:
    return System("StreamBP", python, "streambp_steps.py", (str(checkout),))


def save_model(shape: Shape | Hybrid, config: Path, folder: Path) -> None:
    """Random weights in bf16, as transformers keeps them."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, logging

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_config(
        AutoConfig.from_pretrained(config, trust_remote_code=False), dtype=torch.bfloat16, trust_remote_code=False
    )
    model.save_pretrained(folder)
    shape.write_config(folder)  # in words that older versions of transformers know, too


def measure_other(system: System, name: str, length: int, model: Path) -> OtherCell:
    script = Path(__file__).with_name(system.script)
    command = [system.python, str(script), str(model), str(length), str(STEPS), *system.arguments]
    return OtherCell(system.name, name, length, watch(command, interval=0.05)[0])
