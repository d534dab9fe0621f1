# SPDX-License-Identifier: Apache-2.0
"""`mebp train` in several processes of Ray's, as a call."""

import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mebp.distributed.roles import check_shared
from mebp.errors import Error, reason
from mebp.extras import need_packages
from mebp.ray.desk import Desk
from mebp.ray.worker import work
from mebp.training.call import converted
from mebp.training.interrupts import answer, watched
from mebp.training.lists import lists_as_files
from mebp.training.options import TrainingOptions
from mebp.training.request import Request
from mebp.words import say

if TYPE_CHECKING:
    from ray.actor import ActorHandle
    from ray.train import Result
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    from mebp.training.call import Data

_LOOKS_EVERY = 0.2  # seconds


@dataclass(frozen=True)
class Fit:
    """What a run under Ray did."""

    kept: Path | None  # the folder of the adapter or model, as rank 0 names it
    steps: int
    loss: float | None  # of the last step; None where the run had been finished before
    test_loss: float | None
    workers: int  # of the last start
    restarts: int


def fit(
    model: str | os.PathLike[str],
    data: "Data",
    *,
    workers: int | tuple[int, int] = 2,
    max_failures: int = 0,
    progress: bool = True,
    **options: object,
) -> Fit:
    """Trains as mebp.train does, in processes that Ray Train starts.

    workers: how many; or the fewest and the most, of which Ray takes as many as it has CPUs for, also later in the run.
        Each reserves `threads` CPUs, or one.
    max_failures: how often Ray starts all again where a worker has died; they go on from `state`, with the same bits.
    progress: False shows nothing.
    options: those of mebp.train, by the same names. Paths are this process's, which rank 0's machine needs for what is
        written, and every machine for data.

    Ray is the one that ray.init or RAY_ADDRESS names; without them it is started on this machine for the call, with as
    many CPUs as the workers ask for. Ctrl-C is seen when the step has ended: state and adapter are saved, then
    KeyboardInterrupt is raised; SIGTERM and SIGHUP take their course likewise. A second one ends the workers at once.

    Raises mebp.Error for what mebp.train raises it for, before Ray is started where it is an option; where Ray has no
    restart left; and where Ray is not installed.
    """
    with lists_as_files({"bundle": model, "data": data, **options}) as given:
        plain = converted(given)
        training = Request.of(plain).training
        counts = _counts(workers)
        _check(training, counts, max_failures)
        need_packages("mebp.ray.fit", "ray", "ray", "pandas", "pyarrow")
        fewest, most = (count * (training.threads or 1) for count in counts)
        with _ray(most) as has, tempfile.TemporaryDirectory(prefix="mebp-ray-") as scratch:
            if has < fewest:
                raise Error(f"workers={workers} reserve {fewest} CPUs, and Ray has {has}; start it with more, or give "
                            "fewer")  # fmt: skip
            asked = {"options": plain, "folder": os.getcwd(), "progress": progress}
            with _desk() as desk:
                trainer = _trainer({**asked, "desk": desk}, counts, training.threads or 1, max_failures, scratch)
                done, stopped_by = _watched(trainer, desk, max_failures)
    answer(stopped_by, f"stopped after step {done.steps}")
    return done


def _counts(workers: object) -> tuple[int, int]:
    """The fewest and the most. Raises mebp.Error for what is neither a number nor two."""
    counts = tuple(workers) if isinstance(workers, tuple | list) else (workers, workers)
    if len(counts) != 2 or not all(_is_count(each, 1) for each in counts) or counts[0] > counts[1]:
        raise Error(f"workers is {workers!r}; give a number of at least 1, or the fewest and the most, such as (2, 4)")
    return counts


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _check(training: TrainingOptions, counts: tuple[int, int], max_failures: object) -> None:
    """Raises mebp.Error for what a run of so many workers cannot have."""
    if not _is_count(max_failures, 0):
        raise Error(f"max_failures is {max_failures!r}; give a whole number of at least 0")
    if training.device != "cpu":
        raise Error(f"device is {training.device}, and Ray's workers compute on CPUs; leave it out, or start with "
                    "torchrun")  # fmt: skip
    restarting = {f"max_failures={max_failures}": max_failures, f"workers={counts}": counts[0] < counts[1]}
    for what, restarts in restarting.items():
        if restarts and training.state is None:
            raise Error(f"{what} makes Ray start the run again, from its beginning; give state=DIR, to go on from")
    if counts[0] < counts[1] and training.global_batch is None:
        raise Error(f"workers={counts} may change within the run, and its steps with them; give global_batch=M")
    check_shared(training, counts[1], "Ray starts")


@contextmanager
def _ray(cpus: int) -> Iterator[int]:
    """The CPUs of the caller's, or of one on this machine for as long, which has no dashboard and tells nobody of its
    use."""
    import ray

    if ray.is_initialized():
        yield _cpus()
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if os.environ.get("RAY_ADDRESS"):
            ray.init(**quiet)
        else:
            # Few objects go through its store.
            own = {"object_store_memory": 100_000_000, "include_dashboard": False}
            ray.init("local", num_cpus=max(cpus, os.cpu_count() or 1), **own, **quiet)
    except (RuntimeError, OSError, ValueError) as error:
        raise Error(f"Ray cannot be started ({reason(error)}); see whether ray.init() works") from error
    try:
        yield _cpus()
    finally:
        ray.shutdown()


def _cpus() -> int:
    import ray

    return int(ray.cluster_resources().get("CPU", 0))


@contextmanager
def _desk() -> Iterator["ActorHandle"]:
    """On this machine. Workers that are still there afterwards end with it."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    desk = ray.remote(num_cpus=0)(Desk).options(scheduling_strategy=here).remote()
    try:
        yield desk
    finally:
        ray.kill(desk)


def _trainer(
    given: dict[str, object], counts: tuple[int, int], cpus: int, max_failures: int, scratch: str
) -> "DataParallelTrainer":
    """Without Ray's set-up of torch: worker.py says why."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    variables = {"PYTHONSAFEPATH": "1", "RAY_TRAIN_ENABLE_PRINT_PATCH": "0"}  # which would say each line once more
    return DataParallelTrainer(
        work,
        train_loop_config=given,
        scaling_config=ScalingConfig(
            num_workers=counts if counts[0] < counts[1] else counts[0], resources_per_worker={"CPU": cpus}
        ),
        run_config=RunConfig(
            name="mebp",
            storage_path=scratch,
            failure_config=FailureConfig(max_failures=max_failures),
            worker_runtime_env={"env_vars": variables},
        ),
    )


def _watched(trainer: "DataParallelTrainer", desk: "ActorHandle", max_failures: int) -> tuple[Fit, int | None]:
    """What the run did, and the signal that stopped it."""
    import ray

    found: list[Result | BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            found.append(trainer.fit())
        except BaseException as error:
            found.append(error)
        ended.set()

    stopped_by, is_last = None, False
    with watched() as interrupts:
        # In the main thread Ray would take Ctrl-C, and end the workers within a step.
        threading.Thread(target=run, name="mebp-ray", daemon=True).start()
        while not is_last:
            is_last = ended.is_set()
            for line, error in ray.get(desk.take_lines.remote()):
                say(line, error=error)
            ended.wait(_LOOKS_EVERY)
            if interrupts.pressed and not (stopped_by or is_last):
                stopped_by = interrupts.signal
                desk.stop.remote()
    refusal, restarts = ray.get([desk.refusal.remote(), desk.restarts.remote()])
    if refusal:
        raise Error(refusal)
    (result,) = found
    if isinstance(result, BaseException):
        raise _given_up(result, max_failures) from result
    told = result.return_value
    kept = told.pop("kept")
    return Fit(kept and Path(kept), restarts=restarts, **told), stopped_by


def _given_up(error: BaseException, max_failures: int) -> Error:
    failures: dict[int, Exception] = getattr(error, "worker_failures", {})
    if not failures:
        return Error(f"Ray has ended the run ({reason(error)}); see its logs, which are in /tmp/ray")
    dead = [rank for rank, failure in failures.items() if hasattr(failure, "health_check_failure")]
    rank = min(dead or failures)
    what = "has died" if dead else f"has failed ({str(failures[rank]).strip().splitlines()[-1]})"
    return Error(f"rank {rank} {what}, and max_failures={max_failures} leaves no restart; give more, and state=DIR to "
                 "go on from")  # fmt: skip
