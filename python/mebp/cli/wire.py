# SPDX-License-Identifier: Apache-2.0
"""mebp wire NAME.edge.mebp"""

import argparse
import json
import math
from pathlib import Path

from mebp.errors import Error
from mebp.tables import Table
from mebp.words import say

_MILLI = 1e3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="NAME.edge.mebp", help="the device's half of a split model")
    parser.add_argument("--up", type=float, metavar="MBIT", help="rate from the device to the server, in Mbit/s")
    parser.add_argument("--down", type=float, metavar="MBIT", help="rate from the server to the device, in Mbit/s")
    parser.add_argument("--rtt", type=float, metavar="MS", help="time of a round trip, in ms (default: 0)")
    parser.add_argument(
        "--server-ms", type=float, metavar="MS", help="what the server computes of a decoded token (default: 0)"
    )
    parser.add_argument(
        "--device-ms", type=float, metavar="MS", help="what the device computes of a decoded token (default: 0)"
    )
    parser.add_argument("--rows", type=int, metavar="N", help="tokens of a step (default: all that it has room for)")
    parser.add_argument("--labelled", type=int, metavar="N", help="rows of them that predict a label (default: all)")
    parser.add_argument("--prompt", type=int, metavar="N", help="tokens of a prompt (default: half of all positions)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(arguments: argparse.Namespace) -> int:
    from mebp.wire import Network, Wire, as_json

    network = None
    compute = _compute_ms(arguments)
    if arguments.up is not None or arguments.down is not None:
        if arguments.up is None or arguments.down is None:
            raise Error("--up and --down go together: give both rates, in Mbit/s")
        network = Network(arguments.up, arguments.down, arguments.rtt or 0.0)
    elif arguments.rtt is not None or compute:
        raise Error("--rtt, --server-ms and --device-ms need --up and --down, the rates in Mbit/s")
    wire = Wire(arguments.bundle)
    crossings = [wire.step(arguments.rows, arguments.labelled), wire.evaluation(arguments.rows, arguments.labelled)]
    if wire.generates:
        crossings += [
            wire.prompt(max(1, wire.model["positions"] // 2) if arguments.prompt is None else arguments.prompt),
            wire.token(),
        ]
    elif arguments.prompt is not None:
        raise Error(f"{arguments.bundle}: generates no text; compile it with --generate-len, or leave out --prompt")
    times = [compute if crossing.what == "decoded token" else 0.0 for crossing in crossings]
    if arguments.json:
        found = [as_json(crossing, network, ms) for crossing, ms in zip(crossings, times, strict=True)]
        say(json.dumps({"split": wire.split, "crossings": found}, indent=2))
        return 0
    say(_bytes(wire, crossings))
    if network:
        say(f"\n{_times(network, crossings, times)}")
        say(f"\n{_assumptions(arguments)}")
    return 0


def _compute_ms(arguments: argparse.Namespace) -> float:
    for name in ("server_ms", "device_ms"):
        given = getattr(arguments, name)
        if given is not None and not 0 <= given < math.inf:
            raise Error(f"--{name.replace('_', '-')} {given:g}: give a time of at least 0, in ms")
    return (arguments.server_ms or 0.0) + (arguments.device_ms or 0.0)


def _bytes(wire: object, crossings: list) -> Table:
    title = (
        f"{len(wire.served)} blocks on the server, {wire.served[0]['name']} to {wire.served[-1]['name']}; "
        f"{wire.device_first} layers before them and {wire.device_last} behind them on the device; "
        f"{wire.model['activation']}"
    )
    columns = ["", "tokens", "bytes up", "down", "a token up", "down", "messages up", "down", "round trips"]
    rows = [
        [
            crossing.what,
            f"{crossing.rows:,}",
            f"{crossing.up_bytes:,}",
            f"{crossing.down_bytes:,}",
            f"{crossing.up_bytes / crossing.rows:,.0f}",
            f"{crossing.down_bytes / crossing.rows:,.0f}",
            f"{crossing.up_messages:,}",
            f"{crossing.down_messages:,}",
            f"{crossing.round_trips:,}",
        ]
        for crossing in crossings
    ]
    return Table(title, columns, rows)


def _times(network: object, crossings: list, compute: list[float]) -> Table:
    title = f"predicted for {network.up:g} Mbit/s up, {network.down:g} down, round trips of {network.rtt:g} ms"
    rows = []
    for crossing, ms in zip(crossings, compute, strict=True):
        seconds = crossing.seconds(network, ms)
        parts = [f"{seconds[name] * _MILLI:,.1f}" for name in ("up", "down", "round_trips", "compute", "total")]
        rows.append([crossing.what, *parts, f"{crossing.rows / seconds['total']:,.1f}"])
    return Table(title, ["", "up, ms", "down, ms", "round trips, ms", "compute, ms", "all, ms", "tokens/s"], rows)


def _assumptions(arguments: argparse.Namespace) -> str:
    computes = arguments.server_ms is not None or arguments.device_ms is not None
    counted = "Of a decoded token, the given compute is counted" if computes else "No compute is counted"
    other = "; of steps and prompts none is" if computes else ""
    return (
        f"Assumed: nothing overlaps, messages have frame heads of 32 bytes and no TLS. {counted}{other}. "
        "A real network is slower."
    )
