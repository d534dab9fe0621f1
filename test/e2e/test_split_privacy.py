# SPDX-License-Identifier: Apache-2.0
"""What a server's process and files hold of a device: what has crossed, and nothing else."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.split import connect
from mebp.verification.inputs import randomise_adapter
from support.commands import TIMEOUT, command_line
from support.split import BATCH, SEQUENCE, compile_both

EMBEDDING = "model.embed_tokens.weight"


@contextmanager
def serving(cloud: Path) -> Iterator[tuple[int, int]]:
    """The number and the port of a process that runs `mebp serve`."""
    command = command_line("serve", cloud, "--listen=127.0.0.1:0", "--plain-text", "--threads=1")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process.pid, int(process.stdout.readline().rpartition(":")[2])
    finally:
        process.kill()
        process.wait(TIMEOUT)


def memory_of(pid: int) -> bytes:
    """All of a process' memory that it has written to, or mapped from its bundle: what a core dump has."""
    pieces = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            begin, end, rights, path = re.match(r"(\w+)-(\w+) (\S+) \S+ \S+ \S+\s*(.*)", line).groups()
            if rights.startswith("rw") or ".mebp/" in path:
                memory.seek(int(begin, 16))
                pieces.append(memory.read(int(end, 16) - int(begin, 16)))
    return b"".join(pieces)


def numbers_of(rows: np.ndarray) -> list[bytes]:
    """Each row as floats, and as the bf16 that it rounds to."""
    halves = ((rows.view(np.uint32) + 0x7FFF + ((rows.view(np.uint32) >> 16) & 1)) >> 16).astype(np.uint16)
    return [row.tobytes() for row in (*rows, *halves)]


def ids_of(ids: np.ndarray) -> list[bytes]:
    """Pieces of six, which are nowhere by chance, as int32 and as int64."""
    pieces = ids.reshape(-1)[: ids.size // 6 * 6].reshape(-1, 6)
    return [piece.astype(kind).tobytes() for piece in pieces for kind in (np.int32, np.int64)]


def mixed(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """16 bits of two words, others for most pairs."""
    return (first * np.uint32(0x9E3779B1) + second * np.uint32(0x85EBCA6B)) >> np.uint32(16)


def holds(held: bytes, needles: list[bytes]) -> bool:
    """Whether any of them, of at least eight bytes, is in it, wherever it begins."""
    beginnings = np.frombuffer(b"".join(needle[:8] for needle in needles), np.uint32).reshape(-1, 2)
    is_beginning = np.zeros(1 << 16, bool)  # so that few places are left to look at
    is_beginning[mixed(*beginnings.T)] = True
    sought = tuple(needles)
    for shift in range(4):
        words = np.frombuffer(held, np.uint32, (len(held) - shift) // 4, shift)
        for part in range(0, len(words), 1 << 20):
            piece = words[part : part + (1 << 20) + 1]
            places = np.flatnonzero(is_beginning[mixed(piece[:-1], piece[1:])])
            pairs = piece[places].astype(np.uint64) << np.uint64(32) | piece[places + 1]
            known = beginnings[:, 0].astype(np.uint64) << np.uint64(32) | beginnings[:, 1]
            for place in places[np.isin(pairs, known)]:
                if held.startswith(sought, (part + int(place)) * 4 + shift):
                    return True
    return False


@pytest.mark.parametrize("kept", [(0, 0), (1, 1)], ids=["K = N = 0", "K = N = 1"])
def test_memory_and_files_of_a_server(tmp_path, kept):
    _, edge, cloud = compile_both(tmp_path, "f32", kept)
    # Ids of a part of the vocabulary and labels of another, so that rows of the rest never cross.
    chance = np.random.default_rng(7)
    ids = chance.integers(0, 80, (BATCH, SEQUENCE), dtype=np.int32)
    labels = chance.integers(80, 160, (BATCH, SEQUENCE), dtype=np.int32)
    with serving(cloud) as (pid, port):
        session = mebp.Session(edge, stream=connect(edge, f"127.0.0.1:{port}"), lr=1e-2, threads=1)
        randomise_adapter(session, 3, 0.3)
        matrices = list(session.trainables().values())
        embedding = session.base_weights()[EMBEDDING]
        session.loss(ids, labels)
        session.step(ids, labels)
        text = session.generate(ids[:1, :9], max_new_tokens=6)
        matrices += session.trainables().values()
        session.step(ids, labels)
        matrices += session.trainables().values()
        held = memory_of(pid)
        files = b"".join(path.read_bytes() for path in cloud.rglob("*") if path.is_file())
    used = np.unique([*ids.ravel(), *text.ravel()])
    # What crosses is found, so this search would find the rest.
    assert holds(held, numbers_of(embedding[used])) == (kept == (0, 0))
    private = {
        "a row of the embedding": numbers_of(np.delete(embedding, used, axis=0)),
        "ids": ids_of(ids),
        "labels": ids_of(labels),
        "M": [number for matrix in matrices for number in numbers_of(matrix)],
        "M, transposed": [number for matrix in matrices for number in numbers_of(np.ascontiguousarray(matrix.T))],
    }
    for name, needles in private.items():
        assert len(needles) > 10
        assert not holds(held, needles), f"the server's memory holds {name}"
        assert not holds(files, needles), f"the server's bundle holds {name}"
    assert not holds(files, numbers_of(embedding[used]))
