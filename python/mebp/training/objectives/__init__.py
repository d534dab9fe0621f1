# SPDX-License-Identifier: Apache-2.0
"""What a run trains for: what it makes of its data, what a step does with a session, and what an evaluation measures.

The loop knows an objective by the interface in base.py alone. A new one is a file here, a line in OBJECTIVES, a row in
format/objectives.h and, but for sft, one in PARTS (objective_options.py). That of an encoder has a line in BY_TASK
instead.
"""

from collections.abc import Mapping
from dataclasses import replace

from mebp.errors import Error
from mebp.inspect import inspect
from mebp.objective_traits import SFT
from mebp.tasks import CAUSAL, CLASSIFY, FILL_MASK, TASKS, TOKEN_CLASSIFY
from mebp.tokenizer import Tokenizer
from mebp.training.objectives.base import Measured, Objective
from mebp.training.objectives.classification import Classification, TokenClassification
from mebp.training.objectives.episodes import Episodes
from mebp.training.objectives.groups import Groups
from mebp.training.objectives.masked import Masked
from mebp.training.objectives.odds_ratios import OddsRatios
from mebp.training.objectives.preferences import Preferences
from mebp.training.objectives.rows import OfRows
from mebp.training.objectives.supervised import Supervised
from mebp.training.options import TrainingOptions

__all__ = ["Measured", "Objective", "class_of", "make_objective", "objective_of_task"]

OBJECTIVES: Mapping[str, type[Objective]] = {
    SFT: Supervised,
    "dpo": Preferences,
    "grpo": Groups,
    "ppo": Episodes,
    "orpo": OddsRatios,
}
BY_TASK: Mapping[str, type[OfRows]] = {  # of encoders
    CLASSIFY: Classification,
    TOKEN_CLASSIFY: TokenClassification,
    FILL_MASK: Masked,
}


def objective_of_task(task: str) -> type[OfRows]:
    """What a model is trained for where nothing else is asked for, by which it is measured, too."""
    return BY_TASK.get(task, Supervised)


def class_of(options: TrainingOptions) -> type[Objective]:
    """Raises mebp.Error where it cannot train with these."""
    found = BY_TASK.get(options.task) or OBJECTIVES[options.objective]
    found.check_options(options)
    return found


def make_objective(options: TrainingOptions, tokenizer: Tokenizer, length: int) -> Objective:
    """That of `options`, with its data read into sequences of up to `length` tokens. Raises mebp.Error where they
    cannot be."""
    return class_of(_with_task_of_bundle(options))(options, tokenizer, length)


def _with_task_of_bundle(options: TrainingOptions) -> TrainingOptions:
    model = inspect(options.bundle)["model"]
    task = TASKS[model["task"]]
    does = f"{options.bundle} {task.does.format(classes=len(model['classes']))}"
    if options.task not in (None, task.name):
        raise Error(f"--task {options.task}: {does}; leave it out, or compile a model for it")
    if task.name != CAUSAL and options.objective != SFT:
        raise Error(f"--objective {options.objective} is for language models, and {does}; leave it out")
    if task.name != FILL_MASK and options.mask_probability is not None:
        raise Error(f"--mask-probability is for --task fill-mask, and {does}; leave it out")
    return replace(options, task=task.name)
