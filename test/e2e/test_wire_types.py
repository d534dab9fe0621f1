# SPDX-License-Identifier: Apache-2.0
"""--wire bf16 under f32 activations: half the bytes, and the bits of one process that rounds at the same places."""

import subprocess

import numpy as np
import pytest

import mebp
from mebp.remote_adapters import listed_kinds
from mebp.split import Server, connect
from mebp.tools import find_tool
from mebp.wire import Wire, crossed
from support.commands import TIMEOUT
from support.split import BATCH, SEQUENCE, compile_both

KEPT = {"K = N = 0": (0, 0), "K = N = 1": (1, 1), "K = 2": (2, 0)}
NARROW = "--wire=bf16"
TOKENS = BATCH * SEQUENCE


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("wire_types")


def compile_all(folder, kept):
    """In f32 alone, then with what crosses in bf16: in one process, and in two halves."""
    plain = compile_both(folder, "f32", kept)[0]
    exact = plain.rename(folder / f"exact-{kept[0]}-{kept[1]}.mebp")
    whole, edge, cloud = compile_both(folder, "f32", kept, NARROW)
    mebpc("-o", whole, *OPTIONS, NARROW, f"--device-first={kept[0]}", f"--device-last={kept[1]}", folder=folder)
    return exact, whole, edge, cloud


OPTIONS = ["--adapter=private-lora", "--rank-down=5", "--rank-up=7", "--precision=f32", "--threads=1",
           "--generate-len=48"]  # fmt: skip


def mebpc(*options: object, folder) -> subprocess.CompletedProcess:
    command = [find_tool("mebpc"), folder / "model.onnx", *options]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=TIMEOUT)


def tokens(session: mebp.Session, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    ids = np.random.default_rng(seed).integers(0, session.vocabulary, (BATCH, SEQUENCE), dtype=np.int32)
    return ids, ids


@pytest.mark.parametrize("kept", KEPT)
def test_bits_of_one_process_that_rounds_alike(folder, kept):
    exact, whole, edge, cloud = compile_all(folder, KEPT[kept])
    one = mebp.Session(whole, lr=5e-2, threads=1)
    two = mebp.Session(edge, lr=5e-2, threads=2, stream=connect(edge, Server(cloud, threads=1)))
    third = mebp.Session(exact, lr=5e-2, threads=1)
    for step in range(3):
        assert one.step(*tokens(one, step)).loss == two.step(*tokens(two, step)).loss
    values = one.trainables()
    assert all(np.array_equal(values[key], other) for key, other in two.trainables().items())
    third.set_trainables(values)
    (_, found), (_, same), (_, expected) = (
        session.loss_and_gradients(*tokens(session)) for session in (one, two, third)
    )
    for key, gradient in found.items():
        assert np.array_equal(gradient, same[key])
        distance = np.linalg.norm(gradient - expected[key]) / np.linalg.norm(expected[key])
        assert 0 < distance < 0.02  # bf16 has 8 bits; 2e-5 is what f32 alone keeps
    prompt = tokens(one)[0][:1, :11]
    assert np.array_equal(one.generate(prompt, 16), two.generate(prompt, 16))


@pytest.mark.parametrize("kept", KEPT)
def test_half_the_bytes(folder, tmp_path, kept):
    edge = compile_both(folder, "f32", KEPT[kept], NARROW)[1]
    cloud = edge.with_suffix("").with_suffix(".cloud.mebp")
    session = mebp.Session(edge, stream=connect(edge, Server(cloud, threads=1)), threads=1)
    session.step(*tokens(session))
    narrow, wide = Wire(edge), Wire(compile_f32(folder, tmp_path, KEPT[kept]))
    crossing = narrow.step(TOKENS, TOKENS - BATCH)
    assert crossed(session)[:2] == (crossing.up_bytes, crossing.down_bytes)
    for narrowed, whole in (
        (narrow.step(), wide.step()),
        (narrow.token(), wide.token()),
        (narrow.prompt(9), wide.prompt(9)),
    ):
        assert (2 * narrowed.up_bytes, 2 * narrowed.down_bytes) == (whole.up_bytes, whole.down_bytes)
    assert {channel["storage"] for channel in narrow.split["channels"]["backward"]} == {"bf16"}


def compile_f32(folder, tmp_path, kept):
    options = ["--split=private-lora", f"--device-first={kept[0]}", f"--device-last={kept[1]}"]
    mebpc("-o", tmp_path / "wide.mebp", *OPTIONS, *options, folder=folder)
    return tmp_path / "wide.edge.mebp"


def test_chunks(folder, tmp_path):
    """What a loop over chunks leaves for the other half is rounded chunk by chunk."""
    folder = tmp_path
    whole, edge, cloud = compile_both(folder, "f32", (0, 0), NARROW, "--chunk-size=7")
    one, two = mebp.Session(whole, threads=1), mebp.Session(edge, stream=connect(edge, Server(cloud)), threads=1)
    first, second = (session.loss_and_gradients(*tokens(session)) for session in (one, two))
    assert first[0] == second[0] and all(np.array_equal(first[1][key], second[1][key]) for key in first[1])


def test_refusals(folder):
    compile_both(folder)
    for options, line in (
        (["--wire=f32", "--adapter=private-lora", "--precision=bf16"],
         "--wire f32: activations are bf16, and cross as they are; leave it out, or give --precision f32"),
        (["--wire=bf16"], f"--wire: is of what crosses between a device and a server; give --adapter {listed_kinds()}"),
    ):  # fmt: skip
        run = mebpc(*options, folder=folder)
        assert (run.returncode, run.stderr) == (2, f"mebpc: {line}\n")
