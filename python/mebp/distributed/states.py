# SPDX-License-Identifier: Apache-2.0
"""Where all processes begin: the first reads what is there to go on from, and sends it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mebp.distributed.group import Group
from mebp.distributed.shards import collect, slices, spread
from mebp.errors import Error
from mebp.session import Session

_FILES = _FILE, _ = "state.bin", "state.previous.bin"  # of mebp.Session.save_state
_ROOM = 1 << 20  # bytes that are sent at once


def share_state(group: Group, session: Session) -> None:
    """Puts every session where that of rank 0 is, which has loaded its state or an adapter."""
    with tempfile.TemporaryDirectory(prefix="mebp-state-") as scratch:
        folder = Path(scratch)
        if group.is_first:
            session.save_state(folder)
        size = (folder / _FILE).stat().st_size if group.is_first else 0
        group.send_file(folder / _FILE, int(group.gather([size])[0, 0]))
        if not group.is_first:
            session.load_state(folder)
    _check_steps(group, session)


def _send_values(group: Group, session: Session) -> None:
    values = [session.native.trainable_values(index) for index in range(len(session.native.own_elements(0, 1)))]
    room = np.zeros(_ROOM, np.uint8)
    for each in slices([memory.size for memory in values], [[(0, memory.size) for memory in values]], _ROOM):
        sent = collect(each.of[0], values, room)
        group.broadcast(sent)
        spread(each.of[0], sent, values)


def _check_steps(group: Group, session: Session) -> None:
    if len(set(group.gather([session.steps])[:, 0].tolist())) > 1:
        raise Error("the processes of the group are at different steps; start all again")


def begin_in_parts(group: Group, session: Session, resumed_from: Path | None) -> None:
    """The same, where each session owns a part of what the optimizer keeps: they take it from the state of all."""
    if group.gather([resumed_from is not None])[0, 0]:
        with tempfile.TemporaryDirectory(prefix="mebp-state-") as scratch:
            for name in _FILES:  # where one is damaged, all take the other
                file = (resumed_from or Path(scratch)) / name
                size = file.stat().st_size if group.is_first and file.exists() else 0
                if size := int(group.gather([size])[0, 0]):
                    group.send_file(file, size)
            if not group.is_first:
                session.load_state(scratch)
    else:
        _send_values(group, session)
        if session.has_value_adapter:
            session.native.use_value_adapter(True)
            _send_values(group, session)
            session.native.use_value_adapter(False)
    _check_steps(group, session)


@contextmanager
def gathered_states(group: Group, session: Session) -> Iterator[list[Path]]:
    """In rank 0 the folders of the others' states; elsewhere none."""
    with tempfile.TemporaryDirectory(prefix="mebp-state-") as scratch:
        parts = []
        for rank in range(1, group.size):
            folder = Path(scratch) / str(rank)
            folder.mkdir()
            if rank == group.rank:
                session.save_state(folder)
            size = (folder / _FILE).stat().st_size if rank == group.rank else 0
            group.bring_file(rank, folder / _FILE, int(group.gather([size])[rank, 0]))
            parts.append(folder)
        yield parts if group.is_first else []
