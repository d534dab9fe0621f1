# SPDX-License-Identifier: Apache-2.0
"""Bad input: exit status 2, one line that names the thing, nothing half-written."""

import os
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.torch import load_file, save_file

import mebp
from mebp.tools import find_tool
from support import models
from support.commands import TIMEOUT
from support.exports import export
from support.pipeline import make_bundle


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    export(models.build("llama"), folder / "model.onnx", seq_len=24, batch=1)
    return folder


@pytest.fixture
def folder(exported, tmp_path) -> Path:
    """A copy that a test may damage."""
    shutil.copytree(exported, tmp_path / "model")
    return tmp_path / "model"


def refusal(model: Path, *options: object, output: Path | None = None) -> str:
    output = output or model.parent / "out.mebp"
    before = set(model.parent.iterdir())
    command = [find_tool("mebpc"), str(model), "-o", str(output), "--precision", "f32", *map(str, options)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert run.returncode == 2, (run.returncode, run.stdout, run.stderr)
    lines = run.stderr.splitlines()
    assert len(lines) == 1, run.stderr
    assert set(model.parent.iterdir()) == before and not output.exists()
    return lines[0]


def test_unsupported_op(folder):
    graph = onnx.load(folder / "model.onnx", load_external_data=False)
    node = next(node for node in graph.graph.node if node.op_type == "Sigmoid")
    node.op_type, node.name = "Hardmax", "odd_one"
    onnx.save(graph, folder / "model.onnx")
    line = refusal(folder / "model.onnx")
    assert "Hardmax" in line and "odd_one" in line


@pytest.mark.parametrize(
    ("option", "least"), [("--chunk-size", 0), ("--checkpoint-spacing", 1), ("--seq-len", 1), ("--batch", 1)]
)
def test_numbers_out_of_range(folder, option, least):
    line = refusal(folder / "model.onnx", option, least - 1)
    assert line.startswith(f"mebpc: {option}: Value {least - 1} not in range {least} to ") and len(line) < 100


def test_missing_weights(folder):
    (folder / "model.safetensors").unlink()
    assert "model.safetensors" in refusal(folder / "model.onnx")


def test_truncated_weights(folder):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.unlink()  # it may be a hard link
    path.write_bytes(content[: len(content) // 2])
    assert "model.safetensors" in refusal(folder / "model.onnx")


def test_weights_behind_a_symlink(folder):
    (folder / "model.safetensors").rename(folder / "elsewhere.safetensors")
    (folder / "model.safetensors").symlink_to(folder / "elsewhere.safetensors")
    assert "symlink" in refusal(folder / "model.onnx").lower().replace("symbolic link", "symlink")


@pytest.mark.parametrize("content", [b"", b"cut", b"This is a text.\n" * 50])
def test_not_onnx(folder, content):
    path = folder / "model.onnx"
    path.write_bytes(path.read_bytes()[:1000] if content == b"cut" else content)
    assert "model.onnx" in refusal(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite(folder, value):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name] = tensors[name].clone()
    tensors[name][3, 5] = value
    path.unlink()
    save_file(tensors, path, metadata={"format": "pt"})
    assert name in refusal(folder / "model.onnx")


@pytest.mark.parametrize("rank", [0, -1, 97, 100000])
def test_ranks(folder, rank):
    assert "rank" in refusal(folder / "model.onnx", f"--lora-rank={rank}")


def test_targets_that_match_nothing(folder):
    assert "q_prj" in refusal(folder / "model.onnx", "--lora-targets", "q_prj")


@pytest.mark.parametrize(
    "options",
    [["--weights", "int3"], ["--train", "full"], ["--seq-len", "0"], ["--batch", "0"], ["--optimizer", "galore"]],
    ids=" ".join,
)
def test_options(folder, options):
    assert options[0].lstrip("-") in refusal(folder / "model.onnx", *options)


def test_output_that_cannot_be_written(folder):
    (folder / "file").write_text("")
    assert "file" in refusal(folder / "model.onnx", output=folder / "file" / "out.mebp")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_full_disk(folder, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("this machine refuses to mount a small file system")
    try:
        assert "make room or choose another folder" in refusal(folder / "model.onnx", output=disk / "out.mebp")
        assert not list(disk.iterdir())
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    return make_bundle(models.build("llama"), tmp_path_factory.mktemp("sound"), seq_len=24)


@pytest.fixture
def bundle(sound, tmp_path) -> Path:
    shutil.copytree(sound, tmp_path / "model.mebp")
    return tmp_path / "model.mebp"


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


@pytest.mark.parametrize("file", ["manifest.json", "program.pb"])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.9])
def test_flipped_bytes(bundle, file, place):
    flip(bundle / file, int(place * (bundle / file).stat().st_size))
    with pytest.raises(mebp.Error, match=file):
        mebp.Session(bundle)


def test_truncated_bundle_weights(bundle):
    os.truncate(bundle / "weights.bin", (bundle / "weights.bin").stat().st_size - 1)
    with pytest.raises(mebp.Error, match="weights.bin"):
        mebp.Session(bundle)


@pytest.mark.parametrize(
    "version, advice",
    [
        (1, "has format version 1.0, which this runtime no longer reads; compile it again"),
        (3, "has format version 3.0, newer than this runtime's 2.0; use a newer runtime or compile again"),
    ],
)
def test_other_major_versions(bundle, version, advice):
    content = bytearray((bundle / "program.pb").read_bytes())
    struct.pack_into("<H", content, 4, version)
    struct.pack_into("<I", content, 20, zlib.crc32(content[:20]))
    (bundle / "program.pb").write_bytes(content)
    with pytest.raises(mebp.Error) as caught:
        mebp.Session(bundle)
    assert str(caught.value) == f"{bundle / 'program.pb'}: {advice}"


@pytest.mark.parametrize("method", ["loss", "loss_and_gradients", "step"])
def test_inputs(sound, method):
    call = getattr(mebp.Session(sound), method)
    ids = np.zeros((1, 24), int)
    refused = {
        "25 tokens": (np.zeros((1, 25), int), np.zeros((1, 25), int)),
        "batch": (np.zeros((2, 24), int), np.zeros((2, 24), int)),
        "333": (np.full((1, 24), 333), ids),
        "-1": (np.full((1, 24), -1), ids),
        "label": (ids, np.full((1, 24), 333)),
        "-100": (ids, np.full((1, 24), -100)),
        "both the same shape": (ids, ids[:, :5]),
        "float64": (ids.astype(float), ids),
        "shape": (ids[0], ids[0]),
    }
    for words, (input_ids, labels) in refused.items():
        with pytest.raises(mebp.Error, match=words):
            call(input_ids, labels)
    assert np.isfinite(mebp.Session(sound).loss(ids, ids))


def test_trainables_of_another_shape(sound):
    session = mebp.Session(sound)
    key, values = next(iter(session.trainables().items()))
    for given, words in [({"nothing": values}, "nothing"), ({key: values[:1]}, "shape")]:
        with pytest.raises(mebp.Error, match=words):
            session.set_trainables(given)
