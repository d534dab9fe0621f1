# SPDX-License-Identifier: Apache-2.0
"""`mebp train --plan-only` of a bundle: what a run would need, and nothing of it done."""

from contextlib import nullcontext

from mebp.inspect import inspect
from mebp.memory import anonymous_bytes
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.asking import Asking, bytes_asking, told_of_answers
from mebp.training.judging import Judging
from mebp.training.objectives import make_objective
from mebp.training.opening import open_within_budget
from mebp.training.options import TrainingOptions
from mebp.waiting import told_by
from mebp.words import say


def plan(options: TrainingOptions, progress: bool = True) -> Session:
    """Shows the plan, and returns the session that has it. Nothing is written.

    Raises mebp.Error for data that cannot be read, and where the run does not fit the bundle's budget.
    """
    tokenizer = Tokenizer(options.bundle)
    tokenizer.threads = options.threads
    with told_by(say) if progress else nullcontext():
        objective = make_objective(options, tokenizer, inspect(options.bundle)["model"]["sequence"])
    before = anonymous_bytes()
    session, planned = open_within_budget(options, objective)
    for kind in (Asking, Judging):  # which refuse what has no room for an answer
        kind(options, session, tokenizer)
    planned += bytes_asking(options, session.plan)
    if progress:
        whole = planned + max(0, before - session.plan["process_bytes"])
        say("\n".join([str(session.plan.peak_table()), *told_of_answers(options, session.plan)]))
        kind = "predicted" if session.plan["calibrated"] else "estimated"
        say(
            f"this run: {planned / 1e6:.1f} MB, with Python, the tokenizer and the data ~{whole / 1e6:.0f} MB; "
            f"{kind} {session.plan['predicted_seconds']:.2f} s a step"
        )
    return session
