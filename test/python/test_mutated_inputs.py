# SPDX-License-Identifier: Apache-2.0
"""Mutants of what Python reads, files that people write, a bundle's manifest, a state's records and references: each
is read or refused by one line, and nothing else is raised. The runtime's own readers have test/fuzz."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mebp.data.importing.apps import chats_of
from mebp.data.importing.turns import conversations_of
from mebp.data.reading import read_samples
from mebp.data.reference_file import MadeFrom, ReferenceFile, open_reference
from mebp.data.stream import opened
from mebp.errors import Error
from mebp.inspect import describe, storage_options
from mebp.training import state
from mebp.training.config import read_config
from mebp.training.objectives.groups import _Scored
from mebp.training.standing import Standing
from support.chat_exports import chatgpt, chatgpt_message, claude, claude_message, telegram, telegram_message
from support.opened import Opened

MUTANTS = 1500
KINDS = {"bundle": Path, "lr": float, "steps": int, "clip_recompute": bool, "schedule": str, "adapter_out": Path}
TURNS = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": [{"type": "text", "text": "I."}]}]
LINES = [
    {"text": "a\u2028b", "id": 3},
    {"prompt": "", "completion": "b"},
    {"messages": TURNS},
    {"instruction": "a", "input": "", "output": "b", "system": "c"},
    {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
]
CONFIG = "# a run\nbundle: a.mebp\nlr: 2e-4\nsteps: 3\nclip_recompute: true\nadapter-out: &a out\nschedule: linear\n"
STORED = {
    "precision": "bf16",
    "weights": "int4",
    "embedding_weights": "int8",
    "weights_for": [],
    "lora": {"rank": 8, "targets": ["q"]},
}
MANIFEST = {"name": "a", "format": [1, 0], "model": {"hidden": 64}, "options": STORED, "tokenizer": ["tokenizer.json"]}
# What has a meaning somewhere, and what nobody expects.
PIECES = [
    b"null",
    b"true",
    b"{}",
    b"[]",
    b'""',
    b"1e999",
    b"-0",
    b"9" * 400,
    b"NaN",
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
]
PIECES += [
    b"[" * 3000,
    b'{"a":' * 3000,
    b"&a",
    b"*a",
    b"!!python/object:os.system",
    b"<<: *a",
    b"2026-02-31",
    b": ",
    b"- ",
]
PIECES += [b"'", b'"', b"\\ud800", b"\r", b"\n", b"\t", b"%", b"|", b">", b"? "]


def mutate(content: bytes, choose: random.Random) -> bytes:
    for _ in range(choose.randint(1, 4)):
        start, end = sorted(choose.randint(0, len(content)) for _ in range(2))
        piece = choose.choice([choose.choice(PIECES), content[start:end], bytes([choose.randrange(256)]), b""])
        at = choose.randint(0, len(content))
        content = content[:at] + piece + content[at + choose.choice([0, 0, 1, len(piece), end - start]) :]
    return content


def hold(path: Path, seeds: list[bytes], read: Callable[[Path], object]) -> None:
    choose = random.Random(1)
    for seed in seeds:
        path.write_bytes(seed)
        read(path)
    outcomes = {True: 0, False: 0}
    for number in range(MUTANTS):
        content = mutate(choose.choice(seeds), choose)
        path.write_bytes(content)
        try:
            read(path)
            outcomes[True] += 1
        except Error as error:
            outcomes[False] += 1
            assert "\n" not in str(error), f"mutant {number}, {content[:200]!r}: {error}"
    # A mutator whose mutants are all refused, or none, tries nothing.
    assert min(outcomes.values()) > MUTANTS // 20, outcomes


@pytest.mark.parametrize("name", ["data.jsonl", "data.json", "data.txt"])
def test_data(tmp_path, name):
    lines = [json.dumps(line).encode() + b"\n" for line in LINES]
    arrays = [json.dumps([line, line]).encode() for line in LINES]
    hold(tmp_path / name, [2 * line for line in lines] + arrays, read_samples)


def test_exports_of_chats(tmp_path):
    spoken = [chatgpt_message("user", "a", {"content_type": "image"}), chatgpt_message("assistant", "b")]
    linked = claude_message("assistant", "b", {"type": "text", "text": "c"}, uuid="2", parent_message_uuid="m1")
    named = telegram(telegram_message("Ana", ["a", {"type": "link", "text": "b"}]), telegram_message("Ben", "c", 7))
    exports = [
        [chatgpt(*spoken), chatgpt(*spoken)],
        [claude(claude_message("human", "a", parent_message_uuid=None, attachments=[{}]), linked)],
        named,
        {"chats": {"list": [named]}},
    ]
    seeds = [json.dumps(export, indent=1).encode() for export in exports]
    seeds += [
        "\u200e[31/12/24, 9:05:09\u202fPM] ~ Ana: Hi\nyou\n".encode(),
        "[31/12/24, 21:05:09] Ana: a\n[1/1/25, 1:05:09\u202fAM] Ben: b \u200e<attached: a>\n".encode(),
        b"31/12/24, 21:05 - Ana created it\n31/12/24, 21:05 - Ana: a\n31/12/24, 21:06 - Ben: b\n",
    ]

    def read(path: Path) -> None:
        with opened(path) as file:
            for app, chat in chats_of(path, file):
                for turns in conversations_of(chat, app.learned or "Ben", 3600, Counter()):
                    json.dumps(turns, ensure_ascii=False).encode()

    hold(tmp_path / "export", seeds, read)


def test_config(tmp_path):
    hold(tmp_path / "run.yaml", [CONFIG.encode()], lambda path: read_config(path, KINDS))


def test_manifest(tmp_path):
    def read(path: Path) -> dict[str, str]:
        return storage_options(describe(Opened(path.read_bytes())))

    hold(tmp_path / "manifest.json", [json.dumps(MANIFEST, indent=2).encode()], read)


class Loaded:
    """A session whose state travelled with what a file has."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load_state(self, folder: Path) -> bytes:
        return self.path.read_bytes()


def test_records(tmp_path):
    kept = _Scored(np.array([5, 6], np.int32), np.array([7, 8], np.int32), 0.5, np.array([True, False]))
    standing = Standing(3.0, [3.0, 2.5], evaluated=4, evaluated_loss=2.75, best_step=2, best_loss=2.5, misses=1)
    objective = {"outcome": {"reward": 0.5}, "rollout": [kept.saved()], "equal": [1, 0]}
    description = {"--lr": 1e-3, "standing": standing.stored(), "objective": objective, "reports": {"wandb": "a"}}

    def read(path: Path) -> None:
        found = state.load(Loaded(path), tmp_path, {"--lr": 1e-3})
        with state.restoring(tmp_path):
            restored = Standing.restored(found.get("standing"))
            restored.step(2.0)
            restored.has_exploded(100)
            for each in state.records(found, "objective").get("rollout", []):
                _Scored.restored(each).spread(np.ones(1))
            state.records(found, "reports")

    hold(tmp_path / "records.json", [json.dumps(description).encode()], read)


def test_reference_files(tmp_path):
    lengths, made_from = [2, 3], MadeFrom("b", "a", "d")
    path = tmp_path / "seed"
    open_reference(path, made_from, lengths).get(0, lambda: np.array([-1, -2]))

    def read(path: Path) -> None:
        reference = ReferenceFile(path, made_from, lengths)
        for index, length in enumerate(lengths):
            assert np.isfinite(reference.get(index, lambda length=length: np.zeros(length))).all()

    hold(tmp_path / "reference.safetensors", [path.read_bytes()], read)
