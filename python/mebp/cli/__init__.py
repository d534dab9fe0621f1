# SPDX-License-Identifier: Apache-2.0
"""The `mebp` command: one file a subcommand, each with `add_arguments` and `run`; main picks one; session and
waiting are shared."""

from mebp.cli.main import main

__all__ = ["main"]
