# SPDX-License-Identifier: Apache-2.0
"""What a run trains for: what it makes of its data, what a step does with a session, and what an evaluation measures.

The loop knows an objective by the interface in base.py alone. A new one is a file here and a line in OBJECTIVES.
"""

from collections.abc import Mapping

from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from mebp.training.objectives.base import Measured, Objective
from mebp.training.objectives.episodes import Episodes
from mebp.training.objectives.groups import Groups
from mebp.training.objectives.preferences import Preferences
from mebp.training.objectives.supervised import Supervised
from mebp.training.options import TrainingOptions

__all__ = ["Measured", "Objective", "class_of", "make_objective"]

OBJECTIVES: Mapping[str, type[Objective]] = {
    "sft": Supervised,
    "dpo": Preferences,
    "grpo": Groups,
    "ppo": Episodes,
}


def class_of(options: TrainingOptions) -> type[Objective]:
    """Raises mebp.Error for an objective that is not there."""
    if options.objective not in OBJECTIVES:
        raise Error(f"--objective is '{options.objective}'; choose {', '.join(OBJECTIVES)}")
    return OBJECTIVES[options.objective]


def make_objective(options: TrainingOptions, tokenizer: Tokenizer, length: int) -> Objective:
    """That of `options`, with its data read into sequences of up to `length` tokens. Raises mebp.Error where they
    cannot be."""
    return class_of(options)(options, tokenizer, length)
