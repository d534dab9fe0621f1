# SPDX-License-Identifier: Apache-2.0
"""How well a run stands: its best evaluation, and whether its loss has exploded."""

import math
from dataclasses import asdict, dataclass, field
from statistics import median

_RECENT = 3  # steps: one batch alone may be odd
_MARGIN = 1.0  # nats; further above what knows nothing than batches differ


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


@dataclass
class Standing:
    """Travels in the state, so that a resumed run judges as if it had not stopped."""

    first_loss: float | None = None
    recent_losses: list[float] = field(default_factory=list)  # of the last steps, the first left out
    evaluated: int = 0  # the step of the last evaluation; 0: none yet
    evaluated_loss: float | None = None
    best_step: int = 0
    best_loss: float | None = None
    misses: int = 0  # evaluations since the best

    @classmethod
    def restored(cls, stored: object) -> "Standing":
        """As `stored` has it; of a state that has none, a new one. Raises ValueError for what no run stores."""
        if stored is None:
            return cls()
        if not isinstance(stored, dict):
            raise ValueError("a standing has names")
        restored = cls(**{name: value for name, value in stored.items() if name in cls.__dataclass_fields__})
        restored._check()
        return restored

    def _check(self) -> None:
        if not isinstance(self.recent_losses, list):
            raise ValueError("recent losses are a list")
        losses = (self.first_loss, self.best_loss, self.evaluated_loss)
        for loss in (*self.recent_losses, *(each for each in losses if each is not None)):
            if type(loss) is not float and not _is_count(loss):
                raise ValueError("a loss is a number")
        if not all(map(_is_count, (self.evaluated, self.best_step, self.misses))):
            raise ValueError("steps and misses are counted from 0")

    def stored(self) -> dict:
        return asdict(self)

    def step(self, loss: float) -> None:
        """Takes a step's loss in."""
        if self.first_loss is None:
            self.first_loss = loss
        else:
            self.recent_losses = [*self.recent_losses, loss][-_RECENT:]

    def evaluate(self, step: int, loss: float) -> bool:
        """Takes an evaluation in; whether it is the best so far."""
        self.evaluated, self.evaluated_loss = step, loss
        if self.best_loss is None or loss < self.best_loss:
            self.best_step, self.best_loss, self.misses = step, loss, 0
            return True
        self.misses += 1
        return False

    def has_exploded(self, vocabulary: int) -> bool:
        """Whether a model that knows nothing would do better than the last steps did, and than the first did."""
        bound = max(math.log(vocabulary), self.first_loss or 0.0) + _MARGIN
        return bool(self.recent_losses) and median(self.recent_losses) > bound
