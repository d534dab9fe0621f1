# SPDX-License-Identifier: Apache-2.0
"""Where all processes begin: the first reads what is there to go on from, and sends it."""

import tempfile
from pathlib import Path

from mebp.distributed.group import Group
from mebp.errors import Error
from mebp.session import Session

_FILE = "state.bin"  # of mebp.Session.save_state


def share_state(group: Group, session: Session) -> None:
    """Puts every session where that of rank 0 is, which has loaded its state or an adapter."""
    begins_anew = bool(group.gather([session.steps])[0, 0] == 0)
    with tempfile.TemporaryDirectory(prefix="mebp-state-") as scratch:
        folder = Path(scratch)
        if group.is_first:
            session.save_state(folder)
        _send(group, folder / _FILE)
        if not group.is_first:
            session.load_state(folder)
    if not begins_anew and len(set(group.gather([session.steps])[:, 0].tolist())) > 1:
        raise Error("the processes of the group are at different steps; start all again")


def _send(group: Group, file: Path) -> None:
    size = int(group.gather([file.stat().st_size if group.is_first else 0])[0, 0])
    group.send_file(file, size)
