# SPDX-License-Identifier: Apache-2.0
"""mebp serve NAME.cloud.mebp --listen HOST:PORT"""

import argparse
import json
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
    add("--json", action="store_true", help="print a JSON object where else a line stands; the first has the address")
    add("--plain-text", action="store_true", help="neither encrypt nor check who is there, on a loopback address alone")


def _begun(arguments: argparse.Namespace, port: int) -> str:
    """The first line: what is served, and where."""
    from mebp.inspect import inspect, model_title

    description = inspect(arguments.bundle)
    first, end = (description["split"][name] - 1 for name in ("first_block", "end_block"))  # block 0 is the embedding
    host = arguments.listen.rpartition(":")[0]
    found = {
        "bundle": str(arguments.bundle),
        "model": model_title(description),
        "layers": [first, end - 1],
        "host": host,
        "port": port,
        "address": f"{host}:{port}",
    }
    if arguments.json:
        return json.dumps(found)
    layers = f"layer {first}" if end - first == 1 else f"layers {first} to {end - 1}"
    return f"serving {found['bundle']}, {layers} of {found['model']}, at {found['address']}"


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
            port = server.listen(arguments.listen, credentials)
            say(_begun(arguments, port))
            while True:
                for line in server.lines():
                    say(json.dumps({"said": line}) if arguments.json else line)
                time.sleep(_PATIENCE)
    except SystemExit as stopped:
        # It is how a server is meant to end.
        return 0 if stopped.code == TERMINATED else stopped.code
