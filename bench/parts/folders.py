# SPDX-License-Identifier: Apache-2.0
"""Folders that a benchmark is given: refused in one line, before it measures."""

import sys
from pathlib import Path


def there(text: str) -> Path:
    """The folder that an argument names; ends the command where there is none, without argparse's usage before it."""
    folder = Path(text).expanduser()
    if not folder.is_dir():
        what = "is not a folder; name another" if folder.exists() else "no such folder; make it first"
        sys.stderr.write(f"{Path(sys.argv[0]).name}: --folder {text}: {what}, or leave it out for a temporary one\n")
        sys.exit(2)
    return folder
