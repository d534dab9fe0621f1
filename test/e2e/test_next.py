# SPDX-License-Identifier: Apache-2.0
"""`next:` lines are commands that work as they stand: each is run here."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from mebp.adapters.origin import LIST
from mebp.cli import main
from mebp.tools import find_tool
from support import models
from support.textmodel import make_tokenizer

TURNS = [{"role": "user", "content": "Is it lit?"}, {"role": "assistant", "content": "It is."}]


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Path:
    """A model, and a cache that has it as packaged:smollm2."""
    folder = tmp_path_factory.mktemp("next")
    model = folder / "cache" / "smollm2"
    (folder / "cache").mkdir(mode=0o700)
    models.save(models.build("llama", num_hidden_layers=1), model)
    make_tokenizer(model)
    return folder


@pytest.fixture
def model(shared, tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MEBP_CACHE", str(shared / "cache"))
    monkeypatch.chdir(tmp_path)
    return shared / "cache" / "smollm2"


def told(capsys, *arguments: object) -> str:
    """The command behind `next:` in what the command prints."""
    assert main([*map(str, arguments)]) == 0
    found = capsys.readouterr().out
    assert found.count("next: ") == 1
    return found.split("next: ")[1].strip()


def runs(capsys, command: str) -> str:
    """What it prints."""
    program, *words = shlex.split(command)
    if program == "mebp":
        assert main(words) == 0, capsys.readouterr()
        return capsys.readouterr().out
    done = subprocess.run([find_tool(program), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("sample", "chat"),
    [
        ({"messages": TURNS}, True),
        ({"conversations": [{"from": "human", "value": "Is it lit?"}, {"from": "gpt", "value": "It is."}]}, True),
        ({"instruction": "Is it lit?", "output": "It is."}, True),
        ({"prompt": TURNS[:1], "completion": TURNS[1:]}, True),
        ({"prompt": "Is it lit?", "completion": " It is."}, False),
        ({"text": "It is lit, it is lit, it is lit."}, False),
    ],
    ids=["messages", "sharegpt", "alpaca", "prompt-messages", "completion", "text"],
)
def test_after_training(model, tmp_path, capsys, sample, chat):
    data = tmp_path / "some data.jsonl"
    data.write_text(f"{json.dumps(sample)}\n" * 4)
    line = told(capsys, "train", model, "--data", data, "--seq-len", 64, "--steps", 1, "--adapter-out", "an adapter")
    assert line == f"mebp generate 'an adapter' {'--chat ' * chat}--prompt \"...\""
    assert runs(capsys, line)


def test_after_training_on_preferences(model, tmp_path, capsys):
    data = tmp_path / "pairs.jsonl"
    rejected = [{"role": "assistant", "content": "No."}]
    data.write_text(f"{json.dumps({'prompt': TURNS[:1], 'chosen': TURNS[1:], 'rejected': rejected})}\n" * 2)
    line = told(capsys, "train", model, "--data", data, "--objective", "dpo", "--steps", 1, "--adapter-out", "adapter")
    assert line == 'mebp generate adapter --chat --prompt "..."'
    assert runs(capsys, line)


def test_after_a_run_that_keeps_all(model, tmp_path, capsys):
    data = tmp_path / "data.txt"
    data.write_text("The lamp is lit. " * 40)
    line = told(capsys, "train", model, "--data", data, "--seq-len", 64, "--steps", 2, "--save-every", 1, "--keep",
                "all", "--adapter-out", "adapters")  # fmt: skip
    assert line == 'mebp generate adapters/step-2 --prompt "..."'
    assert runs(capsys, line)


def test_after_a_run_that_this_machine_will_not_know(model, tmp_path, capsys, shared):
    (shared / "cache" / LIST).touch()
    (shared / "cache" / LIST).chmod(0o666)
    data = tmp_path / "data.txt"
    data.write_text("The lamp is lit. " * 40)
    line = told(capsys, "train", model, "--data", data, "--seq-len", 64, "--steps", 1, "--adapter-out", "adapter")
    (shared / "cache" / LIST).unlink()
    assert line == f'mebp generate adapter --base {model} --prompt "..."'
    assert runs(capsys, line)


def test_after_importing_chats(model, tmp_path, capsys):
    chat = "".join(
        f"[11/26/26, 9:0{minute}:00 AM] {who}: Is it lit?\n" for minute, who in enumerate(["Ana", "Ben"] * 4)
    )
    (tmp_path / "_chat.txt").write_text(chat)
    line = told(capsys, "data", "import", "_chat.txt", "--as", "Ben", "-o", "my chat.jsonl")
    assert line == "mebp train packaged:smollm2 --data 'my chat.jsonl' --adapter-out adapter"
    assert 'next: mebp generate adapter --chat --prompt "..."' in runs(capsys, line)


def test_after_an_export(model, tmp_path, capsys):
    folder = tmp_path / "a model"
    line = told(capsys, "export", model, "-o", folder / "model.onnx", "--seq-len", 16)
    assert line == f"mebpc '{folder}/model.onnx' -o 'a model.mebp'"
    runs(capsys, line)
    assert (tmp_path / "a model.mebp" / "program.pb").exists()
