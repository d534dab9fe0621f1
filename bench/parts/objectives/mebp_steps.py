# SPDX-License-Identifier: Apache-2.0
"""This project's side of bench/objectives.py: a process that makes a step of an objective whenever it is told to.

    PYTHONPATH=bench python -m parts.objectives.mebp_steps THREADS BUNDLE DATA KIND [GROUP ROOM]

KIND: sft; dpo, with the reference's log-probabilities kept; dpo-scoring, which computes them in each step; rollouts,
GRPO on completions that DATA has; grpo, on such as it writes itself, GROUP of up to ROOM tokens.
"""

import itertools
import sys
from pathlib import Path

from parts.speed.contender import serve

import mebp
from mebp.data.reference_file import ReferenceFile
from mebp.tokenizer import Tokenizer
from mebp.training.objectives import make_objective
from mebp.training.options import TrainingOptions

REWARD = f"{__file__}:by_length"


def by_length(completion_ids: list, **columns: object) -> list[float]:
    """No matter which, as long as they differ."""
    return [float(sum(ids) % 97) for ids in completion_ids]


def asked(bundle: Path, data: Path, kind: str, *group: str) -> TrainingOptions:
    if kind == "rollouts":
        return TrainingOptions(bundle, data, objective="grpo", rollouts=data)
    if kind == "grpo":
        size, room = map(int, group)
        return TrainingOptions(bundle, data, objective="grpo", reward=[REWARD],
                               objective_options={"group": size, "max_completion": room})  # fmt: skip
    return TrainingOptions(bundle, data, objective=kind.partition("-")[0])


def main() -> None:
    threads, bundle, data, kind, *group = sys.argv[1:]
    if kind == "dpo-scoring":
        ReferenceFile.get = lambda self, completion, compute: compute()
    options = asked(Path(bundle), Path(data), kind, *group)
    length = mebp.Session(bundle, forward_only=True).max_sequence
    objective = make_objective(options, Tokenizer(bundle), length)
    session = mebp.Session(
        bundle, threads=int(threads), optimizer="adamw", return_gradients=False, **objective.session_options()
    )
    list(objective.begin(session))
    numbers = itertools.count()
    planned = session.plan["planned_peak_bytes"] + objective.bytes_beside(session)

    def step() -> dict:
        objective.step(session, next(numbers))
        return {"planned_bytes": planned}

    serve(step)


if __name__ == "__main__":
    main()
