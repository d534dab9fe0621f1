# SPDX-License-Identifier: Apache-2.0
"""mebp serve NAME.cloud.mebp --listen HOST:PORT"""

import argparse
import time
from pathlib import Path

from mebp.cli.main import TERMINATED
from mebp.words import say

_PATIENCE = 0.1  # seconds between two looks at what there is to say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("bundle", type=Path, metavar="NAME.cloud.mebp", help="the server's half that mebpc --split wrote")
    add("--listen", required=True, metavar="HOST:PORT", help="serve devices here; port 0 picks one")
    add("--cert", type=Path, metavar="FILE", help="the server's certificate, such as server.pem of mebp certs")
    add("--key", type=Path, metavar="FILE", help="its key, such as server.key")
    add("--client-ca", type=Path, metavar="FILE", help="the authority that has signed devices' certificates: ca.pem")
    add("--threads", type=int, metavar="N", help="CPU threads of each session (default: all)")
    add(
        "--memory-limit",
        metavar="SIZE",
        help="refuse a session with which all would need more than that, such as 4GiB (default: none)",
    )
    add("--max-sessions", type=int, default=64, metavar="N", help="devices at once (default: 64)")
    add(
        "--resume-window",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="keep the session of a device that is gone for so long (default: 120)",
    )
    add("--plain-text", action="store_true", help="neither encrypt nor check who is there, on a loopback address alone")


def run(arguments: argparse.Namespace) -> int:
    from mebp.errors import Error
    from mebp.session_options import byte_size
    from mebp.split import served
    from mebp.split_options import credentials_of
    from mebp.training.interrupts import ended_by_signals

    for name in ("threads", "max_sessions"):
        value = getattr(arguments, name)
        if value is not None and not 0 < value < 2**30:
            raise Error(f"--{name.replace('_', '-')} is {value}; give at least 1")
    files = (arguments.cert, arguments.key, arguments.client_ca)
    credentials = credentials_of(*files, arguments.plain_text, ("--cert", "--key", "--client-ca"))
    limit = byte_size("--memory-limit", arguments.memory_limit)
    options = {"threads": arguments.threads, "memory_limit": limit, "resume_window": arguments.resume_window,
               "max_sessions": arguments.max_sessions}  # fmt: skip
    try:
        with ended_by_signals(), served(arguments.bundle, **options) as server:
            say(server.listen(arguments.listen, credentials))
            while True:
                for line in server.lines():
                    say(line)
                time.sleep(_PATIENCE)
    except SystemExit as stopped:
        # It is how a server is meant to end.
        return 0 if stopped.code == TERMINATED else stopped.code
