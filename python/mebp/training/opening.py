# SPDX-License-Identifier: Apache-2.0
"""The session of a run, within the memory that its bundle was compiled for."""

from mebp.building.budget import binding_budget
from mebp.distributed.choices import NO_SHARD
from mebp.distributed.group import joined
from mebp.errors import Error
from mebp.session import Session
from mebp.split_options import CONNECTION, open_stream
from mebp.training.objectives import Objective
from mebp.training.options import TrainingOptions


def _open_session(options: TrainingOptions, objective: Objective) -> Session:
    try:
        return _open(options, objective)
    except Error as error:
        if options.shard == NO_SHARD:
            raise
        raise Error(f"--shard {options.shard}: {error}") from None


def _open(options: TrainingOptions, objective: Objective) -> Session:
    group = joined()
    session = Session(
        options.bundle,
        device=options.device,
        threads=group.threads if group and options.threads is None else options.threads,
        optimizer=options.optimizer,
        lr=options.lr,
        weight_decay=options.weight_decay,
        **options.optimizer_options,
        clip=options.clip,
        clip_recompute=options.clip_recompute,
        return_gradients=False,
        spill_folder=options.spill_dir,
        profile=options.profile,
        stream=open_stream(
            options.bundle, in_flight=options.in_flight, **{name: getattr(options, name) for name in CONNECTION}
        ),
        **objective.session_options(),
    )
    if options.embedding_lr is not None:
        try:
            session.set_learning_rate(options.lr, options.embedding_lr)
        except Error as error:
            raise Error(f"--embedding-lr: {error}") from None
    return session


def open_within_budget(options: TrainingOptions, objective: Objective) -> tuple[Session, int]:
    """The session, and the peak that is planned for it."""
    while True:
        session = _open_session(options, objective)
        planned = session.plan["planned_peak_bytes"] + objective.bytes_beside(session)
        budget = binding_budget(session.path, session.plan["budget_bytes"])
        if not budget or planned <= budget or not objective.saves_memory():
            _check_budget(planned, budget)
            return session, planned
        del session


def _check_budget(peak: int, budget: int) -> None:
    """Another optimizer, accumulation, clipping or objective than was planned for may need more than was promised."""
    if budget and peak > budget:
        raise Error(
            f"this run needs {peak / 1e6:.1f} MB, and the bundle was compiled for a budget of {budget / 1e6:.1f} MB; "
            "leave out --accumulate, --in-flight, --momentum or --value-model own, give --clip-recompute or no --clip, "
            "take --optimizer sgd or fewer --threads, or compile for it: mebpc has --accumulate, --clip, --objective, "
            "--value-adapter and --threads, too"
        )
