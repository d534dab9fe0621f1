# SPDX-License-Identifier: Apache-2.0
"""What export and mebpc say: what is going on, and what they wrote."""

import subprocess
import sys

import pytest

from mebp.cli import main
from mebp.tools import find_tool
from support import models


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return models.save(models.build("llama", num_hidden_layers=1), tmp_path_factory.mktemp("llama") / "model")


def test_export_says_each_stage_and_where_it_wrote(source, tmp_path, capsys):
    graph = tmp_path / "tiny" / "model.onnx"
    assert main(["export", str(source), "-o", str(graph), "--seq-len", "8", "--batch", "2"]) == 0
    size = (source / "model.safetensors").stat().st_size / 1e6
    assert capsys.readouterr().out.splitlines() == [
        "tracing LlamaForCausalLM for 2 x 8 tokens",
        f"placing model.safetensors beside the graph, {size:.1f} MB of weights",
        f"wrote {graph}; next: mebpc {graph} -o tiny.mebp",
    ]


def test_a_terminal_keeps_the_last_line_alone(source, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    graph = tmp_path / "tiny" / "model.onnx"
    assert main(["export", str(source), "-o", str(graph), "--seq-len", "8", "--shape-only"]) == 0
    found = capsys.readouterr()
    assert found.out == f"wrote {graph}; next: mebpc {graph} --frontier\n"
    assert "tracing LlamaForCausalLM for 1 x 8 tokens" in found.err


def test_a_refusal_is_all_that_is_said(tmp_path, capsys):
    assert main(["export", str(tmp_path / "none"), "-o", str(tmp_path / "model.onnx")]) == 2
    found = capsys.readouterr()
    assert found.out == "" and len(found.err.splitlines()) == 1


def test_mebpc_says_what_it_wrote(source, tmp_path, capsys):
    graph = tmp_path / "tiny" / "model.onnx"
    assert main(["export", str(source), "-o", str(graph), "--seq-len", "8"]) == 0
    bundle = tmp_path / "tiny.mebp"
    printed = [mebpc(graph, "-o", bundle), mebpc(graph, "--plan-only")]
    size = (bundle / "weights.bin").stat().st_size / 1e6
    assert printed[0].splitlines()[-1] == f"wrote {bundle}: {size:.2f} MB of weights"
    assert "wrote" not in printed[1]


def mebpc(*arguments: object) -> str:
    command = [find_tool("mebpc"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
