# SPDX-License-Identifier: Apache-2.0
"""Every command of docs/last-steps.md, in its order, on an adapter that was just trained."""

import io
import json
import os
import re
import shlex
from pathlib import Path

import pytest

import mebp
from mebp.cli import main
from support import models
from support.ollama import OllamaProgram
from support.textmodel import make_tokenizer

PAGE = Path(__file__).resolve().parents[2] / "docs" / "last-steps.md"
COMMANDS = re.findall(r"`mebp ([^`]+)`", PAGE.read_text(encoding="utf-8").partition("| trainer |")[2])
QUESTIONS = [
    {"messages": [{"role": "user", "content": f"Lamp {index}?"}, {"role": "assistant", "content": "It is lit."}],
     "accept": ["lit"]}
    for index in range(4)
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """With an adapter, and with all that the page names."""
    folder = tmp_path_factory.mktemp("last")
    models.save(models.build("llama", num_hidden_layers=1), folder / "tiny")
    make_tokenizer(folder / "tiny")
    for name in ("chat", "held_out", "questions"):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in QUESTIONS))
    (folder / "bin").mkdir()
    OllamaProgram(folder / "bin")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEBP_CACHE", str(folder / "cache"))
        given = folder / "tiny", folder / "chat.jsonl"
        mebp.train(*given, steps=2, lr=1e-2, progress=False, adapter_out=folder / "adapter", weights="int8")
    return folder


def test_the_page_has_all_five():
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"| {trainer} |" in page for trainer in ("Unsloth", "mlx-lm", "LLaMA-Factory", "ms-swift", "TRL"))
    assert len(COMMANDS) > 12


@pytest.mark.parametrize("command", [*dict.fromkeys(COMMANDS)])
def test_it_runs(folder, command, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MEBP_CACHE", str(folder / "cache"))
    monkeypatch.setenv("PATH", f"{folder / 'bin'}", prepend=os.pathsep)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Is it lit?\n")))
    assert main(shlex.split(command)) == 0, capsys.readouterr().err
    if "-o" in (words := shlex.split(command)):
        assert (folder / words[words.index("-o") + 1]).exists()
