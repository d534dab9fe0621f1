# SPDX-License-Identifier: Apache-2.0
"""What each worker of Ray's runs: `mebp train`, as under torchrun.

Ray says who it is and starts all again; it has no store that outlives a start, and its own torch set-up would make a
process group that does not know of restarts, the heartbeat or --interface. So:
1. Rank 0 opens a store at a port that the system picks, so that none can be taken, and tells it by Ray's broadcast.
2. Every worker sets the variables that torchrun sets, which is where mebp.distributed.launched looks.
"""

import io
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from mebp.distributed.group import LostError, joined
from mebp.errors import Error
from mebp.training.loop import Callback, TrainingRun
from mebp.training.request import Request

if TYPE_CHECKING:
    from ray.actor import ActorHandle
    from torch.distributed import TCPStore

_WAITS = 5.0  # seconds for the rank that says why the others have lost it
_MEETS_WITHIN = timedelta(minutes=5)


def work(given: Mapping) -> dict[str, object] | None:
    """given: options, by their names; the Desk; the folder that paths are relative to; whether to show progress.

    Returns what rank 0 has to tell of the run; None in the others, and where it was refused, which the desk knows. What
    it raises makes Ray start all again.
    """
    import ray
    import ray.train

    desk, context = given["desk"], ray.train.get_context()
    rank = context.get_world_rank()
    with suppress(OSError):  # it may not be there on another machine
        os.chdir(given["folder"])
    with _said_by(desk):
        start, has_stepped = _launched(desk)
        try:
            request = Request.of(options_of_start(given["options"], start, has_stepped))
            run = request.run(_asks(desk) if rank == 0 else None, given["progress"])
        except (Error, SystemExit) as error:
            if _is_loss(error):
                if not _is_refused(desk):
                    raise
                return None
            ray.get(desk.refuse.remote(rank, str(error)))
            with suppress(Error):  # which may be that it cannot be joined
                joined().leave()  # where others may wait for it
            return None
        joined().leave()
        return _told(run, context.get_world_size()) if rank == 0 else None


def options_of_start(options: Mapping[str, object], start: int, has_stepped: bool) -> dict[str, object]:
    """What is there at a restart is this run's, and it goes on; unless it was to be overwritten, and may not be yet."""
    if start and (has_stepped or not options.get("overwrite")):
        return {**options, "resume": True, "overwrite": False}
    return dict(options)


_store: "TCPStore | None" = None  # rank 0's, as long as its process lives


def _launched(desk: "ActorHandle") -> tuple[int, bool]:
    """What the desk says of this start, once the variables are set by which the group is found."""
    import ray
    from ray.train import collective, get_context

    context, told = get_context(), None
    if context.get_world_rank() == 0:
        from torch.distributed import TCPStore

        global _store
        host = ray.util.get_node_ip_address()
        _store = TCPStore(host, 0, None, True, _MEETS_WITHIN, False)
        told = {"host": host, "port": _store.port, "start": ray.get(desk.begin.remote())}
    told = collective.broadcast_from_rank_zero(told)
    start, has_stepped = told["start"]
    os.environ |= {
        "RANK": str(context.get_world_rank()),
        "WORLD_SIZE": str(context.get_world_size()),
        "LOCAL_RANK": str(context.get_local_rank()),
        "LOCAL_WORLD_SIZE": str(context.get_local_world_size()),
        "MASTER_ADDR": told["host"],
        "MASTER_PORT": str(told["port"]),
        "TORCHELASTIC_RUN_ID": "ray",
        "TORCHELASTIC_RESTART_COUNT": str(start),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # it is there already
    }
    return start, has_stepped


def _asks(desk: "ActorHandle") -> Callback:
    import ray

    return lambda record: ray.get(desk.step.remote())


def _is_loss(error: BaseException | None) -> bool:
    """Whether another process has ended first; rank 0 says why, where it ends the others."""
    while error is not None:
        if isinstance(error, LostError | SystemExit):
            return True
        error = error.__cause__
    return False


def _is_refused(desk: "ActorHandle") -> bool:
    """Whether another process says that a start would not change why it has ended."""
    import ray

    until = time.monotonic() + _WAITS
    while ray.get(desk.refusal.remote()) is None:
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def _told(run: TrainingRun, workers: int) -> dict[str, object]:
    """Plain values, which Ray hands to the caller."""
    return {
        "kept": str(run.kept) if run.kept else None,
        "steps": run.session.steps,
        "loss": run.records[-1].loss if run.records else None,
        "test_loss": run.test_loss,
        "workers": workers,
    }


class _Lines(io.TextIOBase):
    """A stream whose lines go to the desk."""

    def __init__(self, desk: "ActorHandle", error: bool) -> None:
        self._desk, self._error, self._open = desk, error, ""

    def write(self, text: str) -> int:
        *lines, self._open = (self._open + text).split("\n")
        for line in lines:
            self._desk.say.remote(line, self._error)
        return len(text)

    def writable(self) -> bool:
        return True


@contextmanager
def _said_by(desk: "ActorHandle") -> Iterator[None]:
    import ray

    with redirect_stdout(_Lines(desk, False)), redirect_stderr(_Lines(desk, True)):
        try:
            yield
        finally:
            sys.stdout.flush()
            ray.get(desk.restarts.remote())  # what was said before has come
