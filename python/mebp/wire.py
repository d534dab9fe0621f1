# SPDX-License-Identifier: Apache-2.0
"""What crosses between the halves of a split model, from the device's bundle alone."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from mebp.errors import Error
from mebp.inspect import inspect
from mebp.remote_adapters import listed_kinds
from mebp.session import Session
from mebp.split import kept_layers

HEAD_BYTES = 32  # of a frame: format/split.h
ROW_NUMBER_BYTES = 4  # of a command, for each row whose result the device wants
LEAST_WAVE = 16  # rows of the first of two waves: format/split.h


@dataclass(frozen=True)
class Network:
    """Rates in Mbit/s (10^6), and the time of a round trip in ms."""

    up: float
    down: float
    rtt: float = 0.0

    def __post_init__(self) -> None:
        for name in ("up", "down"):
            if not 0 < getattr(self, name) < math.inf:
                raise Error(f"--{name} {getattr(self, name):g}: give a rate above 0, in Mbit/s")
        if not 0 <= self.rtt < math.inf:
            raise Error(f"--rtt {self.rtt:g}: give a time of at least 0, in ms")


@dataclass(frozen=True)
class Crossing:
    """What one action lets cross. Bytes are those of messages' bodies; `overhead_*`: of heads and of commands."""

    what: str
    rows: int
    up_bytes: int
    down_bytes: int
    up_messages: int
    down_messages: int
    round_trips: int
    overhead_up_bytes: int
    overhead_down_bytes: int

    def seconds(self, network: Network, compute_ms: float = 0.0) -> dict[str, float]:
        """Of each part, and of all after each other: nothing overlaps."""
        parts = {
            "up": (self.up_bytes + self.overhead_up_bytes) * 8 / (network.up * 1e6),
            "down": (self.down_bytes + self.overhead_down_bytes) * 8 / (network.down * 1e6),
            "round_trips": self.round_trips * network.rtt / 1e3,
            "compute": compute_ms / 1e3,
        }
        return {**parts, "total": sum(parts.values())}


class Wire:
    """The messages of a split model, in the order in which its programs run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """path: the device's half, NAME.edge.mebp."""
        self.description = inspect(path)
        self.split = split_of(self.description, path)
        self.model = self.description["model"]
        blocks = self.description["blocks"]
        self.first, self.end = self.split["first_block"], self.split["end_block"]
        self.served = blocks[self.first : self.end]
        self.device_first, self.device_last = kept_layers(self.description)
        self.tokens = self.model["batch"] * self.model["sequence"]
        self.generates = "decode" in blocks[0]["programs"]

    def step(self, rows: int | None = None, labelled: int | None = None) -> Crossing:
        """A training step over so many tokens, of which so many predict a label; None for all."""
        rows, labelled = self._rows(rows, labelled)
        messages = self._messages("forward", rows, labelled) + self._messages("backward", rows, labelled)
        return _crossing("training step", rows, messages, 2, 2 * labelled if self._selects() else 0)

    def evaluation(self, rows: int | None = None, labelled: int | None = None) -> Crossing:
        """A loss, likewise."""
        rows, labelled = self._rows(rows, labelled)
        messages = self._messages("forward", rows, labelled)
        return _crossing("evaluation", rows, messages, 1, labelled if self._selects() else 0)

    def prompt(self, rows: int) -> Crossing:
        """What one prompt of so many tokens lets cross, in as many passes as the bundle's rows make of it, most of them
        in two waves."""
        if not 1 <= rows <= self.model["positions"]:
            raise Error(
                f"--prompt {rows}: the bundle has room for {self.model['positions']:,} positions; give 1 to "
                f"{self.model['positions']:,}"
            )
        passes = self._passes(rows)
        messages = [message for taken in passes for message in self._messages("decode", taken, 1, self._wave(taken))]
        return _crossing("prompt", rows, messages, len(passes), len(passes) if self._selects() else 0)

    def token(self) -> Crossing:
        """One decoded token."""
        return _crossing("decoded token", 1, self._messages("decode", 1, 1), 1, 1 if self._selects() else 0)

    def _rows(self, rows: int | None, labelled: int | None) -> tuple[int, int]:
        rows = self.tokens if rows is None else rows
        labelled = rows if labelled is None else labelled
        if not 1 <= rows <= self.tokens:
            raise Error(f"--rows {rows}: the bundle has room for 1 to {self.tokens:,} tokens a step")
        if not 1 <= labelled <= rows:
            raise Error(f"--labelled {labelled}: of {rows:,} rows, 1 to {rows:,} can predict a label")
        return rows, labelled

    def _selects(self) -> bool:
        """Whether the head comes next, so that only rows that it wants cross."""
        return self.device_last == 0

    def _passes(self, rows: int) -> list[int]:
        """As the runtime cuts a prompt: never one row alone at its end where two may be."""
        most = min(self._port_rows(self.description["blocks"][0]["programs"]["decode"]), self.model["sequence"])
        passes: list[int] = []
        while rows:
            taken = min(most, rows)
            if rows - taken == 1 and taken > 2:
                taken -= 1
            passes.append(taken)
            rows -= taken
        return passes

    def _wave(self, taken: int) -> int:
        """Of a pass of so many tokens, how many go in its first wave; 0: it goes as one. As format/split.h has it."""
        most = self._port_rows(self.description["blocks"][0]["programs"]["decode"])
        begin = most // 2 // 32 * 32
        first = min((taken + 1) // 2, begin)
        return first if first >= LEAST_WAVE and taken - first <= most - begin else 0

    def _port_rows(self, program: int) -> int:
        described = self.description["programs"][program]
        return next(
            described["tensors"][port["value"]]["rows"] for port in described["takes"] if port["kind"] == "batch"
        )

    def _messages(self, passing: str, rows: int, wanted: int, wave: int = 0) -> list[tuple[bool, int]]:
        """(whether to the server, bytes) of each, of so many rows; `wanted`: on which the head runs; `wave`: how many
        rows come first, in messages of their own."""
        waves = [(wave, 0), (rows - wave, wanted)] if wave else [(rows, wanted)]
        return [
            (channel["to_server"], (selected if channel["selected_rows"] else taken) * channel["row_bytes"])
            for channel in self.split["channels"][passing]
            for taken, selected in waves
        ]


def crossed(session: Session) -> tuple[int, int, int, int]:
    """What has really crossed since a device's session was made: bytes of messages up and down, messages up and
    down."""
    return session._session.crossed()


def split_of(description: Mapping[str, object], path: str | os.PathLike[str]) -> dict:
    """What the device's half says of its split; Error where it is something else."""
    split = description.get("split")
    if split is None:
        raise Error(f"{path}: is a whole model, of which nothing crosses; compile it with --split {listed_kinds()}")
    if split["place"] != "device":
        raise Error(f"{path}: is the server's half; give the device's, NAME.edge.mebp")
    return split


def as_json(crossing: Crossing, network: Network | None, compute_ms: float = 0.0) -> dict:
    """All fields, and the times where there is a network."""
    fields: dict[str, object] = asdict(crossing)
    if network:
        seconds = crossing.seconds(network, compute_ms)
        fields |= {"seconds": seconds, "tokens_per_second": crossing.rows / seconds["total"]}
    return fields


def _crossing(what: str, rows: int, messages: Sequence[tuple[bool, int]], commands: int, row_numbers: int) -> Crossing:
    up = [size for is_up, size in messages if is_up]
    down = [size for is_up, size in messages if not is_up]
    # Each wait for an answer: what comes down behind what went up.
    waits = sum(earlier and not later for (earlier, _), (later, _) in pairwise(messages))
    return Crossing(
        what,
        rows,
        sum(up),
        sum(down),
        len(up),
        len(down),
        waits,
        HEAD_BYTES * (len(up) + commands) + ROW_NUMBER_BYTES * row_numbers,
        HEAD_BYTES * len(down),
    )
