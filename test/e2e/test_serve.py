# SPDX-License-Identifier: Apache-2.0
"""mebp serve and --connect: a split model from the command line."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from mebp.certificates import make_certificates
from mebp.tools import find_tool
from support.commands import TIMEOUT
from support.split import make_text_halves
from support.textmodel import TEXT


def mebp(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "mebp", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)


@pytest.fixture(scope="module")
def halves() -> tuple[Path, Path, Path]:
    return make_text_halves()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


def shown(folder: Path, name: str, authority: str) -> list[object]:
    return ["--cert", folder / f"{name}.pem", "--key", folder / f"{name}.key", authority, folder / "ca.pem"]


@contextmanager
def serving(cloud: Path, *options: object, **environment: str):
    """The port of a server, which is ended by Ctrl-C."""
    command = [sys.executable, "-m", "mebp", "serve", cloud, "--listen", "127.0.0.1:0", "--threads=1", *options]
    process = subprocess.Popen(
        [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )
    try:
        yield int(process.stdout.readline().rpartition(":")[2])
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
    finally:
        process.kill()


def first_line(cloud: Path, *options: str) -> str:
    command = [sys.executable, "-m", "mebp", "serve", cloud, "--listen=127.0.0.1:0", "--plain-text", *options]
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True) as process:
        try:
            return process.stdout.readline()
        finally:
            process.kill()


def test_the_first_line_says_what_is_served_and_where(halves):
    *_, cloud = halves
    assert re.fullmatch(rf"serving {cloud}, layers 0 to 2 of source, at 127\.0\.0\.1:\d+\n", first_line(cloud))
    found = json.loads(first_line(cloud, "--json"))
    port = found.pop("port")
    assert found == {"bundle": str(cloud), "model": "source", "layers": [0, 2], "host": "127.0.0.1",
                     "address": f"127.0.0.1:{port}"}  # fmt: skip


def test_train_eval_and_generate(halves, certificates, tmp_path):
    whole, edge, cloud = halves
    data = tmp_path / "data.txt"
    data.write_text(TEXT)
    train = ["--data", data, "--steps=3", "--lr=1e-2", "--threads=1", "--accumulate=3"]
    one = mebp("train", whole, *train, "--adapter-out", tmp_path / "one")
    assert one.returncode == 0, one.stderr
    with serving(cloud, *shown(certificates, "server", "--client-ca")) as port:
        connected = ["--connect", f"127.0.0.1:{port}", *shown(certificates, "client", "--ca")]
        two = mebp("train", edge, *train, "--adapter-out", tmp_path / "two", *connected, "--in-flight=2")
        assert two.returncode == 0, two.stderr
        for name in ("adapter_model.safetensors", "private_lora.safetensors"):
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
        for command in (["eval", "--data", data], ["generate", "--prompt", "The lamp", "--max-new-tokens=8"]):
            verb, *rest = command
            own = mebp(verb, whole, *rest, "--adapter", tmp_path / "one", "--threads=1")
            far = mebp(verb, edge, *rest, "--adapter", tmp_path / "two", "--threads=1", *connected)
            assert (own.returncode, far.returncode) == (0, 0), far.stderr
            assert own.stdout == far.stdout
        tokens = tmp_path / "tokens.npy"
        np.save(tokens, np.arange(64, dtype=np.int32).reshape(2, 32))
        tool = [find_tool("mebp-run"), edge, "--tokens", tokens, "--steps=2", *connected]
        run = subprocess.run([*map(str, tool)], capture_output=True, text=True, timeout=TIMEOUT)
        assert run.returncode == 0, run.stderr


def test_a_server_with_other_kernels(halves, tmp_path):
    _, edge, cloud = halves
    data = tmp_path / "data.txt"
    data.write_text(TEXT)
    with serving(cloud, "--plain-text", MEBP_KERNELS="reference") as port:
        done = mebp("eval", edge, "--data", data, f"--connect=127.0.0.1:{port}", "--plain-text", "--threads=1")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("warning: the server runs reference kernels and this device "), done.stderr


def refused(done: subprocess.CompletedProcess, text: str) -> None:
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1 and text in done.stderr, done.stderr


def test_refusals(halves, certificates, tmp_path):
    whole, edge, cloud = halves
    data = tmp_path / "data.txt"
    data.write_text(TEXT)
    refused(mebp("eval", edge, "--data", data), "the device's half of a model")
    refused(mebp("serve", edge, "--listen", "127.0.0.1:0", "--plain-text"), "not the server's half")
    refused(mebp("serve", whole, "--listen", "127.0.0.1:0", "--plain-text"), "not the server's half")
    foreign = tmp_path / "foreign"
    make_certificates(foreign)
    with serving(cloud, *shown(certificates, "server", "--client-ca")) as port:
        connect = ["--connect", f"127.0.0.1:{port}"]
        refused(mebp("eval", whole, "--data", data, *connect, *shown(certificates, "client", "--ca")), "whole model")
        refused(mebp("eval", edge, "--data", data, *connect, *shown(foreign, "client", "--ca")), "certificate")
        refused(mebp("eval", edge, "--data", data, *connect, "--plain-text"), "TLS")
        taken = ["--listen", f"127.0.0.1:{port}", *shown(certificates, "server", "--client-ca")]
        refused(mebp("serve", cloud, *taken), str(port))
    gone = [*connect, *shown(certificates, "client", "--ca"), "--retry-for=1"]
    refused(mebp("eval", edge, "--data", data, *gone), "127.0.0.1")
