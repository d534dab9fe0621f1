# SPDX-License-Identifier: Apache-2.0
"""Which starts of torchrun's begin the run: it starts all again whenever one has ended with another status than 0, as
processes do that a signal has stopped.

1. A start that is stopped leaves its number as a mark: in the state's folder, or without one in torchrun's store.
2. A start of a higher number that finds it ends at once.
3. Any other removes it: torchrun counts anew when a user starts it, and does not count where machines come and go.
"""

import socket
from contextlib import suppress
from pathlib import Path

from mebp.distributed.group import Group
from mebp.errors import Error
from mebp.words import say

_MARK = "stopped"  # a file's name, or a key
_NONE = -1


def begins(group: Group, folder: Path | None, steps: int) -> bool:
    """Whether the run begins; False where it has been stopped. Raises mebp.Error where rank 0 would not go on from the
    latest state. folder: of this process's state; steps: after how many it was saved, 0 where there is none to go on
    from."""
    starts, marks, found = group.gather([group.start, _find(group, folder), steps]).T
    if starts.max() > marks.max() > _NONE:
        if group.is_first:
            say("stopped by a signal, so that no restart goes on with it; start it again, with --resume where it has "
                "a state", error=True)  # fmt: skip
        return False
    _remove(group, folder)
    if found.max() > found[0]:
        rank, hosts = int(found.argmax()), group.gather_json(socket.gethostname())
        own = f"the state of step {found[0]}" if found[0] else "no state"
        raise Error(
            f"--state {folder}: rank 0, on {hosts[0]}, has {own} there, and rank {rank}, on {hosts[rank]}, has that of "
            f"step {found[rank]}; copy it to {hosts[0]}, or name a folder that all machines share"
        )
    return True


def leave_mark(group: Group, folder: Path | None = None) -> None:
    if folder:
        (folder / _MARK).write_text(f"{group.start}\n", encoding="ascii")
    else:
        group.kept.set(_MARK, str(group.start))


def _find(group: Group, folder: Path | None) -> int:
    found = [_NONE]
    with suppress(OSError, ValueError):  # a file of that name that is not a mark
        if folder and group.is_first:
            found.append(int((folder / _MARK).read_text(encoding="ascii")))
    with suppress(ValueError):
        if group.kept.check([_MARK]):
            found.append(int(group.kept.get(_MARK)))
    return max(found)


def _remove(group: Group, folder: Path | None) -> None:
    if group.is_first:
        group.kept.delete_key(_MARK)
        if folder:
            (folder / _MARK).unlink(missing_ok=True)
