# SPDX-License-Identifier: Apache-2.0
import sys

# `python -m mebp` looks for modules in the current folder first; there a stranger's file may have any module's name.
if not sys.flags.safe_path:
    del sys.path[0]

from mebp.cli import main

sys.exit(main())
