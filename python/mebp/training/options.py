# SPDX-License-Identifier: Apache-2.0
"""What a training run is asked to do."""

import math
from dataclasses import dataclass
from pathlib import Path

from mebp.errors import Error
from mebp.training.schedule import SCHEDULES


@dataclass(frozen=True)
class TrainingOptions:
    """As the command line has them; see `mebp train --help`. Raises mebp.Error for a value that cannot be meant."""

    bundle: Path
    data: Path
    steps: int | None = None
    epochs: int | None = None
    lr: float = 2e-4
    seed: int = 0
    optimizer: str | None = None
    weight_decay: float = 0.0
    clip: float | None = None
    accumulate: int = 1
    schedule: str = "constant"
    warmup: int = 0
    eval: Path | None = None
    eval_every: int | None = None
    adapter_out: Path | None = None
    state: Path | None = None
    save_every: int = 50
    resume: bool = False
    log: Path | None = None
    plot: Path | None = None
    threads: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.steps is not None and self.epochs is not None:
            raise Error("--steps and --epochs exclude each other; give one")
        for name in ("steps", "epochs", "accumulate", "eval_every", "save_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise Error(f"--{name.replace('_', '-')} is {value}; give at least 1")
        for name in ("seed", "warmup"):
            if getattr(self, name) < 0:
                raise Error(f"--{name} is {getattr(self, name)}; give at least 0")
        if self.clip is not None and not (math.isfinite(self.clip) and self.clip > 0):
            raise Error(f"--clip is {self.clip:g}; give a number above 0")
        if self.schedule not in SCHEDULES:
            raise Error(f"--schedule is '{self.schedule}'; choose {', '.join(SCHEDULES)}")
        if self.resume and self.state is None:
            raise Error("--resume needs --state DIR, the folder to continue from")
        if self.eval_every is not None and self.eval is None:
            raise Error("--eval-every needs --eval FILE, the data to measure the loss on")

    def total_steps(self, steps_per_epoch: int) -> int:
        """By default one epoch."""
        return self.steps if self.steps is not None else (self.epochs or 1) * steps_per_epoch
