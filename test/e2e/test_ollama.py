# SPDX-License-Identifier: Apache-2.0
"""`mebp ollama`, with a program in Ollama's place (support.ollama)."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

import mebp
from mebp.cli import main
from mebp.cli.ollama import QUESTION
from mebp.gguf.container import read_container
from mebp.tools import cache_folder
from mebp.verification.inputs import randomise_adapter
from support.commands import refusal_in_process, running
from support.ollama import OllamaProgram


@pytest.fixture(scope="module")
def adapter(bundle, tmp_path_factory) -> Path:
    session = mebp.Session(bundle)
    randomise_adapter(session)
    folder = tmp_path_factory.mktemp("trained") / "lamp keeper"
    session.save_adapter(folder)
    return folder


@pytest.fixture
def ollama(tmp_path, monkeypatch) -> OllamaProgram:
    folder = tmp_path / "ollama"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    return OllamaProgram(folder)


def leftovers() -> list[Path]:
    return [*cache_folder().glob(".ollama-*")]


def test_a_model_is_made_and_asked(ollama, bundle, adapter, capsys):
    assert main(["ollama", str(adapter), "--base", str(bundle), "--ask", "-- Who?", "--dtype", "f16"]) == 0
    found = capsys.readouterr()
    assert found.out.splitlines()[-1] == "I can keep a lamp." and found.err.splitlines()[-1] == "> -- Who?"
    assert "talk to it with ollama run lamp-keeper" in found.out
    version, show, again, create, run = ollama.calls
    assert again == show
    assert (version, show) == (["--version"], ["show", "lamp-keeper"])
    assert create[:3] == ["create", "lamp-keeper", "-f"]
    assert run == ["run", "lamp-keeper", "--", "-- Who?"]
    model = ollama.place / "models" / "lamp-keeper"
    assert (model / "Modelfile").read_text().splitlines()[1:] == [
        "FROM ./lamp-keeper.gguf", 'PARAMETER stop "<|endoftext|>"', 'PARAMETER stop "<|im_end|>"'
    ]  # fmt: skip
    container = read_container(model / "model.gguf")
    assert "<|im_start|>" in container.metadata["tokenizer.chat_template"]
    assert {tensor.kind for tensor in container.tensors} == {"F16", "F32"}
    assert not leftovers()


def test_of_a_bundle_with_an_adapter_under_a_name(ollama, bundle, adapter, capsys):
    assert main(["ollama", str(bundle), "--adapter", str(adapter), "--name", "Lamp:v1"]) == 0
    assert [call[1:2] for call in ollama.calls[1:]] == [["Lamp:v1"]] * 4 and ollama.models == ["Lamp:v1"]
    assert ollama.calls[-1][-1] == QUESTION


class TestRefusals:
    @pytest.fixture(autouse=True)
    def _given(self, ollama, bundle, adapter, capsys):
        self.ollama, self.capsys = ollama, capsys
        self.given = ["ollama", bundle, "--adapter", adapter]

    def line(self, *options: object) -> str:
        before = self.ollama.models
        found = refusal_in_process(self.capsys, *self.given, *options)
        assert self.ollama.models == before and not leftovers()
        return found.removeprefix("mebp: ").rstrip("\n").replace(str(self.ollama.place), "BIN")

    def test_no_ollama(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        assert self.line() == (
            "ollama is not on PATH; install it, or write the files for it with mebp merge -o NAME.gguf"
        )

    @pytest.mark.parametrize(
        ("version", "old"),
        [
            ("ollama version is 0.34.0", "0.34.0"),
            ("ollama version is 0.33.0-rc2\nWarning: client version is 0.40.0", "0.33.0"),
            ("ollama version is 0.40.0\nWarning: client version is 0.9.6", "0.9.6"),
        ],
    )
    def test_one_that_is_too_old(self, version, old):
        self.ollama.set(version=version)
        assert self.line() == f"BIN/ollama: is Ollama {old}, and mebp needs 0.34.1 or later; update it"
        assert self.ollama.calls == [["--version"]]

    def test_no_server(self):
        self.ollama.set(version="Warning: could not connect to a running Ollama instance\n"
                                "Warning: client version is 0.34.1")  # fmt: skip
        assert self.line() == "ollama's server does not run; start it with ollama serve"

    def test_another_program_of_that_name(self):
        self.ollama.set(version="hello")
        assert self.line() == "BIN/ollama: does not say its version; mebp needs Ollama 0.34.1 or later"

    def test_a_name_that_exists(self):
        (self.ollama.place / "models" / "lamp").mkdir()
        assert self.line("--name", "lamp") == (
            "--name lamp: Ollama has a model of this name; choose another, or remove it with ollama rm"
        )
        assert [call[0] for call in self.ollama.calls] == ["--version", "show"]

    @pytest.mark.parametrize("name", ["", "-f", "a b", "../x", "a/b/c/d", "a:b:c"])
    def test_a_name_that_cannot_be(self, name):
        assert self.line(f"--name={name}") == (
            f"--name {name}: is not a name for Ollama; use letters, digits and '-', as in my-model:v1"
        )

    def test_ollama_cannot_say(self):
        self.ollama.set(show="something went wrong")
        assert self.line("--name", "lamp") == "ollama show lamp: Error: something went wrong"

    def test_an_empty_question(self):
        assert self.line("--ask", " ") == "--ask is empty; give a question"
        assert not self.ollama.calls

    def test_no_adapter(self):
        del self.given[2:]
        assert "give one, or --adapter DIR" in self.line()

    def test_a_disk_that_is_full(self, monkeypatch):
        monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=1000))
        assert "the merged model needs" in self.line()

    def fails(self, *options: object) -> str:
        assert main([*map(str, self.given), *options]) == 2
        assert not leftovers()
        (found,) = self.capsys.readouterr().err.splitlines()[-1:]
        return found.removeprefix("mebp: ")

    def test_ollama_does_not_make_it(self):
        self.ollama.set(create="unsupported architecture")
        assert self.fails("--name", "lamp") == "ollama create lamp: Error: unsupported architecture"
        assert not self.ollama.models

    def test_the_model_does_not_answer(self):
        self.ollama.set(run="llama-server has stopped")
        assert self.fails("--name", "lamp") == "ollama run lamp: Error: llama-server has stopped"
        assert self.ollama.models == ["lamp"]


def test_ctrl_c_leaves_nothing(ollama, bundle, adapter):
    ollama.set(seconds=600)
    model = ollama.place / "models" / "lamp" / "Modelfile"
    with running("ollama", bundle, "--adapter", adapter, "--name", "lamp", until=lambda _: model.exists()) as process:
        assert leftovers()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert not ollama.models and not leftovers()
    assert ollama.calls[-1] == ["rm", "lamp"]
