# SPDX-License-Identifier: Apache-2.0
"""What `mebpc --emit exec` prints is all that a bundle is made of; standard passes may run on it, and between ours."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.tools import find_tool
from support import models
from support.commands import TIMEOUT
from support.exports import export

OPTIONS = {
    "whole": ["--rates", "none"],
    "chunks": ["--rates", "none", "--chunk-size", "8", "--precision", "f32", "--weights-for", "lm_head=bf16"],
    "generation": ["--rates", "none", "--generate-len", "40"],
    "budget": ["--rates", "none", "--memory-budget", "4MB", "--optimizer", "sgd", "--seed", "3"],
}
STANDARD = ["--cse", "--canonicalize"]


def start(*command: object) -> subprocess.CompletedProcess:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=TIMEOUT, check=False)


def run(*command: object) -> str:
    ran = start(*command)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "model.onnx"
    # Biases, a window and a rotary embedding; two sums over chunks begin with the same zeros.
    export(models.build("qwen2"), path, seq_len=24, batch=2)
    return path


def files(bundle: Path) -> dict[str, bytes]:
    return {str(path.relative_to(bundle)): path.read_bytes() for path in bundle.rglob("*") if path.is_file()}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_text_becomes_the_same_bundle(exported, tmp_path, options):
    mebpc, text = find_tool("mebpc"), tmp_path / "program.mlir"
    printed = run(mebpc, exported, "-o", tmp_path / "a.mebp", *options)
    text.write_text(run(mebpc, exported, *options, "--emit", "exec"))
    again = run(mebpc, text, "-o", tmp_path / "b.mebp", "--rates", "none")
    known = [line for line in printed.splitlines() if "twice the memory" not in line]  # the text is of one plan
    assert again.splitlines() == "\n".join(known).replace("a.mebp", "b.mebp").splitlines()
    assert files(tmp_path / "a.mebp") == files(tmp_path / "b.mebp")
    assert run(mebpc, text, "--emit", "exec") == text.read_text()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_standard_passes_change_nothing(exported, tmp_path, options):
    """They run wherever they can: where a program is placed they find nothing to do, before it nothing goes wrong."""
    mebpc, opt = find_tool("mebpc"), find_tool("mebp-opt")
    run(mebpc, exported, "-o", tmp_path / "a.mebp", *options)
    (tmp_path / "train.mlir").write_text(run(mebpc, exported, *options, "--emit", "train"))
    lower = [*STANDARD, "--mebp-lower-to-exec=batch=2 sequence=24", *STANDARD, "--mebp-place-values"]
    placed = run(opt, tmp_path / "train.mlir", *lower)
    (tmp_path / "exec.mlir").write_text(placed)
    assert run(opt, tmp_path / "exec.mlir", *STANDARD) == placed
    run(mebpc, tmp_path / "exec.mlir", "-o", tmp_path / "b.mebp", "--rates", "none")

    ids = np.asarray(models.token_ids(models.build("qwen2"), 2, 24))
    losses, gradients = zip(
        *(mebp.Session(tmp_path / name, optimizer="sgd").loss_and_gradients(ids, ids) for name in ("a.mebp", "b.mebp")),
        strict=True,
    )
    assert losses[0] == losses[1]
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        assert np.array_equal(gradient, gradients[1][name]), name


def test_other_texts_are_refused(exported, tmp_path):
    mebpc = find_tool("mebpc")
    text = run(mebpc, exported, "--emit", "exec")
    wrong = {
        "hello": (r"hello.mlir:1: custom op 'hello' is unknown", "hello"),
        "empty": (r"empty.mlir: has no mebp.options; give what mebpc --emit exec prints", "module {}"),
        "option": (r"option.mlir: mebp.options has no chunk_size, or not a valid one", text.replace("chunk_size", "x")),
        "batch": (
            r"batch.mlir: mebp.options has no valid batch, sequence, threads, optimizer and momentum",
            text.replace("{batch = 2 : i64", "{batch = 0 : i64"),
        ),
        "momentum": (
            r"momentum.mlir: mebp.options has no valid batch, sequence, threads, optimizer and momentum",
            text.replace("momentum = 0.0", "momentum = 0.9"),  # of adamw
        ),
        "kernel": (r'"rms_nrm" is no kernel \(format/kernels.h\)', text.replace('"rms_norm"', '"rms_nrm"')),
        "places": (
            r"unplaced.mlir: program @\S+ has values without a place|places for some of its values alone",
            re.sub(r" at \[[^\]]*\]", "", text),
        ),
        "program": (
            r'has "logits" = @head.logits, which is not there',
            re.sub(r"  exec.program @head.logits.*?\n  }[^\n]*\n", "", text, flags=re.DOTALL),
        ),
        "train": (
            r"train.mlir: block @\S+ has \S+ = @\S+, which is no program",
            run(mebpc, exported, "--emit", "train"),
        ),
        "cut": (r"cut.mlir:\d+: ", text[: len(text) // 2]),
    }
    for name, (message, content) in wrong.items():
        assert content != text, name
        (tmp_path / f"{name}.mlir").write_text(content)
        ran = start(mebpc, tmp_path / f"{name}.mlir", "-o", tmp_path / "model.mebp")
        assert ran.returncode == 2 and re.search(message, ran.stderr), (name, ran.stderr)
        assert not (tmp_path / "model.mebp").exists()


def test_the_options_of_a_text_are_its_own(exported, tmp_path):
    mebpc, text = find_tool("mebpc"), tmp_path / "program.mlir"
    text.write_text(run(mebpc, exported, "--emit", "exec"))
    ran = start(mebpc, text, "--seq-len", "8", "--plan-only")
    assert ran.returncode == 2
    assert re.fullmatch(r"mebpc: --seq-len: \S+program.mlir was planned with its own; leave it out\n", ran.stderr)
    shutil.move(text, tmp_path / "moved.mlir")
    run(mebpc, tmp_path / "moved.mlir", "--plan-only", "--explain-peak")
