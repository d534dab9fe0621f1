# SPDX-License-Identifier: Apache-2.0
"""What a server that is curious can compute from what crosses, tried on a split model of one's own.

The server knows the public model, its tables and its last norm. It knows neither ids, labels nor what is trained.
"""

import os
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mebp.errors import Error
from mebp.inspect import inspect
from mebp.public_model import PublicEnds
from mebp.remote_adapters import kind_of_bundle
from mebp.session import Session
from mebp.split import Server, connect, kept_layers
from mebp.verification.inputs import random_batch, randomise_adapter
from mebp.wire import split_of
from mebp.words import counted

# format/split.h: FrameHead and FrameKind::Message; format/ports.h: Stage.
_HEAD = struct.Struct("<BBHIIIIIII")
_MESSAGE = 7
_OF_PRECISION = 16  # of an adapter is found what is as near as so many roundings of what crosses
_HIDDEN, _COMPRESSED, _ADAPTED, _HIDDEN_COTANGENT = 0, 1, 2, 3


@dataclass(frozen=True)
class Attack:
    """rate: of what was looked for, how much was found; None where this attack has nothing to go by, as `note`
    says."""

    what: str
    by: str
    rate: float | None
    found: int
    of: int
    note: str = ""


@dataclass(frozen=True)
class Audit:
    """first_layers, last_layers: K and N, on the device. worst_m_error: relative, L2, of all M, or what else
    the adapters train; None: there is none."""

    first_layers: int
    last_layers: int
    tokens: int
    attacks: list[Attack]
    worst_m_error: float | None

    def as_json(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class _Seen:
    """What crossed, by (whether the device sent it, stage, block): float32 values, flat."""

    messages: Mapping[tuple[bool, int, int], np.ndarray]

    def of(self, is_up: bool, stage: int, block: int) -> np.ndarray:
        return self.messages[is_up, stage, block]


def audit(
    edge: str | os.PathLike[str],
    cloud: str | os.PathLike[str] | None = None,
    *,
    ids: np.ndarray | None = None,
    adapter: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Audit:
    """Runs one training step's forward and backward over both halves in this process, and the attacks on what crosses.

    edge, cloud: both halves; without `cloud`, NAME.cloud.mebp beside NAME.edge.mebp.
    ids: integers [1, tokens], at least 2; None for random ones.
    adapter: what the device has trained; None for random numbers.

    Raises mebp.Error where the bundles are no pair or do not train.
    """
    edge = Path(edge)
    description = inspect(edge)
    split = split_of(description, edge)
    cloud = _beside(edge) if cloud is None else cloud
    stream = connect(edge, Server(cloud, threads=threads), records=True)
    session = Session(edge, threads=threads, stream=stream)
    if adapter is not None:
        session.load_adapter(adapter)
    else:
        randomise_adapter(session, seed)
    if ids is None:
        ids = random_batch(session, session.max_sequence, seed)[0][:1]
    if ids.shape[1] < 2:
        raise Error("the text is shorter than two tokens, so that none predicts another; give a longer one")
    session.loss_and_gradients(ids, ids)
    seen = _read(stream.recorded(), description)
    # An adapter stays the same until the next step, so a server may collect rows from as many texts as it needs.
    session.loss(*random_batch(session, session.max_sequence, seed + 1))
    of_adapters = _read(stream.recorded(), description)
    ends = PublicEnds(edge, session.base_weights(), description)
    first, last = kept_layers(description)
    symbol = kind_of_bundle(description).symbol
    attacks = [
        _ids(seen, split, ends, ids[0], first),
        *_outputs(seen, split, ends, session, ids, last, symbol),
    ]
    adapters, worst = _adapters(of_adapters, description, session.trainables())
    return Audit(first, last, ids.shape[1], [*attacks, adapters], worst)


def _beside(edge: Path) -> Path:
    if not edge.name.endswith(".edge.mebp"):
        raise Error(f"{edge}: is not called NAME.edge.mebp, so that its server's half cannot be guessed; give --cloud")
    return edge.with_name(edge.name.removesuffix(".edge.mebp") + ".cloud.mebp")


def _read(frames: list[tuple[bool, bytes, bytes]], description: Mapping) -> _Seen:
    element = np.dtype("<u2") if _crosses_narrow(description) else np.dtype("<f4")
    messages = {}
    for is_up, head, body in frames:
        _, kind, stage, _, _, block, *_ = _HEAD.unpack(head)
        if kind == _MESSAGE:
            values = np.frombuffer(body, element)
            if element.itemsize == 2:
                values = (values.astype(np.uint32) << 16).view(np.float32)
            messages[is_up, stage, block] = values
    return _Seen(messages)


def _crosses_narrow(description: Mapping) -> bool:
    """Whether what crosses is bf16; activations of f32 may be narrowed for the wire."""
    return description["split"]["channels"]["forward"][0]["storage"] == "bf16"


def _counted(what: str, by: str, guesses: np.ndarray, truth: np.ndarray, note: str) -> Attack:
    found = int((guesses == truth).sum())
    return Attack(what, by, found / truth.size, found, truth.size, note)


def _ids(seen: _Seen, split: Mapping, ends: PublicEnds, ids: np.ndarray, first: int) -> Attack:
    rows = seen.of(True, _HIDDEN, split["first_block"] - 1).reshape(len(ids), -1)
    come = "comes" if first == 1 else "come"
    note = (
        f"{counted(first, 'layer')} on the device {come} first; optimising attacks find more than this one"
        if first
        else ""
    )
    return _counted("ids", "the nearest embedding row to the first activation", ends.nearest(rows), ids, note)


def _outputs(
    seen: _Seen, split: Mapping, ends: PublicEnds, session: Session, ids: np.ndarray, last: int, symbol: str
) -> list[Attack]:
    top = split["end_block"] - 1
    # The last row predicts nothing: it crosses only where the server does not know which rows count.
    rows = seen.of(False, _HIDDEN, top).reshape(-1, ends.hidden)[: ids.shape[1] - 1]
    likeliest = session.logits(ids)[0, :-1].argmax(axis=-1)
    tokens = _counted(
        "generated tokens",
        "the public head on the last activation",
        ends.logits(rows).argmax(axis=-1),
        likeliest,
        f"{counted(last, 'layer')} behind it on the device; a server that runs the public ones finds more"
        if last
        else "",
    )
    by = "the label whose gradient fits the last activation's"
    if last:
        own, lie = ("its", "lies") if last == 1 else ("their", "lie")
        kept = f"{counted(last, 'layer')} on the device, with {own} own {symbol}"
        note = f"{kept}, {lie} between the labels and what crosses"
        return [tokens, Attack("labels", by, None, 0, len(rows), note)]
    cotangents = seen.of(True, _HIDDEN_COTANGENT, top).reshape(rows.shape)
    return [tokens, _counted("labels", by, ends.labels(rows, cotangents), ids[0, 1:], "")]


def _adapters(seen: _Seen, description: Mapping, trainables: Mapping[str, np.ndarray]) -> tuple[Attack, float | None]:
    split, kind = description["split"], kind_of_bundle(description)
    precision = 2.0**-8 if _crosses_narrow(description) else 2.0**-24
    errors = []
    for number in range(split["first_block"], split["end_block"]):
        block = description["blocks"][number]
        if "adapt" not in block["programs"]:
            continue
        program = description["programs"][block["programs"]["adapt"]]
        inputs = _ports(program, "takes", seen.of(False, _COMPRESSED, number))
        outputs = _ports(program, "gives", seen.of(True, _ADAPTED, number))
        for name, v in outputs.items():
            layer = name.removesuffix(".v")
            u = inputs.get(f"{layer}.u", next(iter(inputs.values())))  # one for all where A is shared
            guess = kind.middle.find(u.astype(np.float64), v.astype(np.float64))
            truth = trainables[kind.key_of(f"{block['name']}.{layer}")]
            size = np.linalg.norm(truth)
            errors.append(float(np.linalg.norm(guess - truth) / size) if size else float(np.linalg.norm(guess)))
    # What rounding does to v is spread over what is found, and more of it where u is thin in a direction.
    found = sum(error < _OF_PRECISION * precision for error in errors)
    note = f"relative error {np.median(errors):.1e} in the middle, {max(errors):.1e} at most" if errors else ""
    rate = found / len(errors) if errors else None
    return Attack(kind.symbol, kind.middle.found_by, rate, found, len(errors), note), max(errors, default=None)


def _ports(program: Mapping, side: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """[rows, columns] of each remote port, which lie one behind the other."""
    columns = {
        port["name"]: program["tensors"][port["value"]]["columns"] for port in program[side] if port["kind"] == "remote"
    }
    rows = values.size // sum(columns.values())
    ports, begin = {}, 0
    for name, count in columns.items():
        ports[name] = values[begin : begin + rows * count].reshape(rows, count)
        begin += rows * count
    return ports
