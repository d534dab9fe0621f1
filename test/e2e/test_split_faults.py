# SPDX-License-Identifier: Apache-2.0
"""Whatever breaks between a device and its server, or of them, what is trained has the bits of an undisturbed run.
`make test` tries three faults of each kind, `make soak` (MEBP_SOAK) fifty."""

import random
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.certificates import make_certificates
from mebp.cli.main import main
from mebp.split import Credentials, Server, connect, served
from support.commands import running
from support.relay import Relay
from support.soak import SOAK
from support.split import STEPS, compile_both, make_text_halves, same, tokens, trained
from support.textmodel import TEXT

FAULTS = 50 if SOAK else 3
RUN_STEPS = 40
KILLED = -9
ADAPTER = ("adapter_model.safetensors", "private_lora.safetensors")


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    return compile_both(tmp_path_factory.mktemp("halves"))


@pytest.mark.parametrize("seed", range(FAULTS))
def test_cuts(halves, seed):
    """The stream breaks again and again, and what was under way is lost."""
    whole, edge, cloud = halves
    server = Server(cloud, threads=1, resume_window=3)  # for a last frame that was lost
    stream = connect(edge, server)
    stream.shape(0, 0, 0.1, 12, seed)
    assert same(trained(whole), trained(edge, stream))
    assert any("came back" in line for line in server.lines())


@pytest.mark.parametrize("is_secret", [True, False], ids=["TLS", "plain text"])
def test_reset_connections(halves, tmp_path, is_secret):
    """A device comes back to its session, though the server serves one alone, which it still has."""
    whole, edge, cloud = halves
    make_certificates(tmp_path)
    ours, theirs = (
        Credentials(tmp_path / f"{name}.pem", tmp_path / f"{name}.key", tmp_path / "ca.pem") if is_secret else None
        for name in ("client", "server")
    )
    with served(cloud, threads=1, max_sessions=1) as server:
        with Relay("127.0.0.1", server.listen("127.0.0.1:0", theirs)) as relay:
            session = mebp.Session(edge, stream=connect(edge, f"127.0.0.1:{relay.port}", ours), lr=5e-2, threads=1)
            for step in range(STEPS):
                session.step(*tokens(session, step))
                relay.cut()
            assert same(trained(whole), session.trainables())
        assert sum("came back" in line for line in server.lines()) == STEPS - 1
        with pytest.raises(mebp.Error, match="^the server serves as many devices as it may, 1; try again later$"):
            mebp.Session(edge, stream=connect(edge, server, identity="another"))
        stopped = time.monotonic()
    assert time.monotonic() - stopped < 20  # and not as long as a session waits for its device


@pytest.mark.skipif(not SOAK, reason="waits for minutes, as a device does; make soak")
@pytest.mark.parametrize("rate", [0, 1], ids=["stalls", "trickles"])
def test_a_network_that_gives_nothing_or_a_byte_a_second(halves, rate):
    """The call fails in time, with nothing changed, and the next one is as if nothing had been."""
    whole, edge, cloud = halves
    with served(cloud, threads=1) as server, Relay("127.0.0.1", server.listen("127.0.0.1:0")) as relay:
        stream = connect(edge, f"127.0.0.1:{relay.port}", retry_for=1)
        session = mebp.Session(edge, stream=stream, lr=5e-2, threads=1)
        session.step(*tokens(session, 0))
        before = session.trainables()
        relay.trickle(rate)
        started = time.monotonic()
        with pytest.raises(mebp.Error) as refused:
            session.step(*tokens(session, 1))
        assert time.monotonic() - started < 150
        assert len(str(refused.value).splitlines()) == 1
        assert same(before, session.trainables())
        relay.go()
        for step in range(1, STEPS):
            session.step(*tokens(session, step))
        assert same(trained(whole), session.trainables())


SERVE = """
import sys, time
from mebp.split import Server
server = Server(sys.argv[1], threads=1)
print(server.listen(f"127.0.0.1:{sys.argv[2]}"), flush=True)
time.sleep(600)
"""


def serve(cloud: Path, port: int = 0) -> tuple[subprocess.Popen, int]:
    process = subprocess.Popen([sys.executable, "-c", SERVE, cloud, str(port)], stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


def test_killed_servers(halves):
    """A step that a server was killed in begins again with the next one."""
    whole, edge, cloud = halves
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    process, port = serve(cloud)
    killed = 0

    def kill_and_start() -> None:
        nonlocal process, killed
        for pause in np.random.default_rng(seed).uniform(0.05, 0.3, FAULTS):
            time.sleep(pause)
            process.kill()
            process.wait()
            killed += 1
            process, _ = serve(cloud, port)

    thread = threading.Thread(target=kill_and_start)
    try:
        session = mebp.Session(edge, stream=connect(edge, f"127.0.0.1:{port}"), lr=1e-3, threads=1)
        thread.start()
        for step in count():
            session.step(*tokens(session, step))
            if not thread.is_alive() and step >= STEPS:
                break
        values = session.trainables()
        del session
    finally:
        thread.join()
        process.kill()
    assert killed == FAULTS
    assert same(trained(whole, steps=step + 1, lr=1e-3), values)


def test_killed_devices(tmp_path, show):
    """A device goes on from its state, with a session of its own beside the one that the server still keeps."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    whole, edge, cloud = make_text_halves()
    data = tmp_path / "data.txt"
    data.write_text(TEXT)

    def run(bundle: Path, name: str, *more: object) -> list[str]:
        places = [f"--{option}={tmp_path / name}-{option}" for option in ("state", "log", "adapter-out")]
        return [*map(str, ["train", bundle, f"--data={data}", f"--steps={RUN_STEPS}", "--lr=1e-2", "--threads=1",
                           "--save-every=1", *places, *more])]  # fmt: skip

    def adapter(name: str) -> list[bytes]:
        return [(tmp_path / f"{name}-adapter-out" / file).read_bytes() for file in ADAPTER]

    assert main(run(whole, "whole")) == 0
    killed = 0
    with served(cloud, threads=1, resume_window=1) as server:
        connected = ["--plain-text", f"--connect=127.0.0.1:{server.listen('127.0.0.1:0')}"]
        for number in range(FAULTS):
            name = f"edge-{number}"
            lines, pause = chance.randrange(RUN_STEPS - 5), chance.uniform(0, 0.05)
            print(f"killed {pause:.4f} s after {lines} steps")
            log = tmp_path / f"{name}-log"
            begun = lambda _, log=log, lines=lines: log.exists() and log.read_text().count("\n") >= lines  # noqa: E731
            with running(*run(edge, name, *connected), until=begun) as process:
                time.sleep(pause)
            killed += process.returncode == KILLED
            assert main(run(edge, name, *connected, "--resume")) == 0
            assert adapter(name) == adapter("whole")
    assert killed
    show(f"{FAULTS} runs over a wire: {killed} killed before their end; all went on with the same bits")
