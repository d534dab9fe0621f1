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
    with tempfile.TemporaryDirectory(prefix="mebp-state-") as scratch:
        folder = Path(scratch)
        if group.is_first:
            session.save_state(folder)
        size = (folder / _FILE).stat().st_size if group.is_first else 0
        group.send_file(folder / _FILE, int(group.gather([size])[0, 0]))
        if not group.is_first:
            session.load_state(folder)
    if len(set(group.gather([session.steps])[:, 0].tolist())) > 1:
        raise Error("the processes of the group are at different steps; start all again")
