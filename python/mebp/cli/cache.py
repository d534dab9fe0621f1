# SPDX-License-Identifier: Apache-2.0
"""mebp cache [--prune SIZE]"""

import argparse
import json
from dataclasses import asdict

from mebp.tables import Table
from mebp.tools import cache_folder
from mebp.words import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prune",
        metavar="SIZE",
        help="remove what was not used for the longest time and nobody uses now, until the rest has at most SIZE, such "
        "as 5GB; 0 removes all",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    from mebp.building.pruning import LIMIT, cache_limit, list_entries, prune, size_of

    limit = cache_limit()
    removed = [] if arguments.prune is None else prune(size_of("--prune", arguments.prune))
    entries, total = list_entries()
    if arguments.json:
        listed = {
            name: [{**asdict(each), "path": str(each.path), "name": each.name} for each in some]
            for name, some in (("entries", entries), ("removed", removed))
        }
        say(json.dumps({"folder": str(cache_folder()), "bytes": total, "limit": limit, **listed}, indent=2))
        return 0
    for each in removed:
        say(f"{each.path}: removed, {each.bytes / 1e6:,.1f} MB, last used {each.last_used}")
    most = f"after a build at most {limit / 1e9:g} GB" if limit else "without a limit"
    title = f"{cache_folder()}: {total / 1e6:,.1f} MB, {most} ({LIMIT})"
    rows = [[each.name, f"{each.bytes / 1e6:,.1f}", each.last_used, "in use" * each.held] for each in entries]
    say(Table(title, ["entry", "MB", "last used", ""], rows) if rows else f"{title}; it holds nothing")
    return 0
