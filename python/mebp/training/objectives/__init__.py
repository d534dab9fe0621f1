# SPDX-License-Identifier: Apache-2.0
"""What a run trains for: what it makes of its data, what a step does with a session, and what an evaluation measures.

The loop knows an objective by the interface in base.py alone. A new one is a file here, a line in OBJECTIVES and, with
options of its own, one in PARTS (objective_options.py).
"""

from collections.abc import Mapping
from dataclasses import replace

from mebp.errors import Error
from mebp.inspect import inspect
from mebp.tokenizer import Tokenizer
from mebp.training.objectives.base import Measured, Objective
from mebp.training.objectives.classification import Classification
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
    if options.task == "classify":
        return Classification
    if options.objective not in OBJECTIVES:
        raise Error(f"--objective is '{options.objective}'; choose {', '.join(OBJECTIVES)}")
    return OBJECTIVES[options.objective]


def make_objective(options: TrainingOptions, tokenizer: Tokenizer, length: int) -> Objective:
    """That of `options`, with its data read into sequences of up to `length` tokens. Raises mebp.Error where they
    cannot be."""
    return class_of(_with_task_of_bundle(options))(options, tokenizer, length)


def _with_task_of_bundle(options: TrainingOptions) -> TrainingOptions:
    classes = inspect(options.bundle)["model"]["classes"]
    task = "classify" if classes else "causal"
    if options.task not in (None, task):
        does = f"tells {len(classes)} classes apart" if classes else "predicts the next token"
        raise Error(f"--task {options.task}: {options.bundle} {does}; leave it out, or compile a model for it")
    if classes and options.objective != "sft":
        raise Error(f"--objective {options.objective} is for language models, and {options.bundle} is a classifier")
    return replace(options, task=task)
