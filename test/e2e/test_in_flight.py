# SPDX-License-Identifier: Apache-2.0
"""Micro-batches of a step that are under way at once, between device and server, come to the bits of one at a time."""

import threading
import time

import numpy as np
import pytest

import mebp
from mebp.inspect import inspect
from mebp.split import Server, connect
from mebp.split_options import open_stream
from support.peaks import other_peaks
from support.split import BATCH, compile_both

# Of each micro-batch: its length, and the labels that count in it. One has none, and one a single one.
SHAPES = ((33, 30), (12, 12), (40, 40), (20, 0), (7, 1), (33, 33), (40, 3), (25, 20))
STEPS = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("in-flight")


@pytest.fixture(scope="module")
def halves(folder):
    return compile_both(folder)


def micro_batches(vocabulary: int, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    generator = np.random.default_rng(seed)
    ids = [generator.integers(0, vocabulary, (BATCH, length), dtype=np.int32) for length, _ in SHAPES]
    labels = [batch.copy() for batch in ids]
    for batch, (length, counting) in zip(labels, SHAPES, strict=True):
        batch[:, : length - counting] = -100
    return ids, labels


def opened(bundle, stream=None, threads: int = 1, **options) -> mebp.Session:
    return mebp.Session(bundle, stream=stream, lr=5e-2, threads=threads, accumulate=True, **options)


def train(session: mebp.Session, steps: int = STEPS, first: int = 0) -> list:
    """All that steps come to."""
    outcome = []
    for seed in range(first, first + steps):
        result = session.step(*micro_batches(session.vocabulary, seed))
        outcome += [result.loss, result.grad_norm, result.tokens]
    return [*outcome, *(values.tobytes() for values in session.trainables().values())]


@pytest.mark.parametrize("kept", [(0, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_bits_of_one_at_a_time(folder, precision, kept):
    whole, edge, cloud = compile_both(folder, precision, kept)
    server = Server(cloud, threads=1)
    expected = train(opened(whole))
    for threads in (1, 3):
        for count in (1, 2, 4):
            assert train(opened(edge, connect(edge, server, in_flight=count), threads)) == expected, (threads, count)


def test_more_lanes_than_micro_batches(halves):
    """And a step of one, and a loss, between steps of many."""
    whole, edge, cloud = halves
    outcomes = []
    for bundle, stream in ((whole, None), (edge, connect(edge, Server(cloud), in_flight=9))):
        session = opened(bundle, stream)
        outcome = train(session)
        ids, labels = micro_batches(session.vocabulary, 5)
        outcome += [session.step(ids[0], labels[0]).loss, session.loss(ids[1], labels[1])]
        outcomes.append([*outcome, *train(session)])
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("count", [1, 3])
def test_cuts(halves, count):
    """Streams break again and again, each in moments of its own."""
    whole, edge, cloud = halves
    server = Server(cloud, threads=1, resume_window=3)  # for a last frame that was lost
    stream = connect(edge, server, in_flight=count)
    stream.shape(0, 0, 0.1, 40, 7)
    assert train(opened(edge, stream)) == train(opened(whole))
    assert sum("came back" in line for line in server.lines()) >= count


@pytest.mark.parametrize("count", [1, 4])
def test_servers_that_are_gone(halves, count):
    """Sessions of a server end in the middle of steps, which then begin again with the next server."""
    whole, edge, cloud = halves
    first = Server(cloud, threads=1, resume_window=0.3)
    servers = [first]
    port = first.listen("127.0.0.1:0")
    done = threading.Event()

    def replace() -> None:
        for pause in np.random.default_rng(count).uniform(0.05, 0.2, 3):
            done.wait(pause)
            servers[-1].stop()
            servers.append(Server(cloud, threads=1, resume_window=0.3))
            servers[-1].listen(f"127.0.0.1:{port}")

    session = opened(edge, connect(edge, f"127.0.0.1:{port}", in_flight=count))
    thread = threading.Thread(target=replace)
    thread.start()
    steps = 0
    while thread.is_alive() or steps < STEPS:
        outcome = train(session, 1, steps)
        steps += 1
    done.set()
    thread.join()
    del session
    servers[-1].stop()
    assert outcome == train(opened(whole), steps)[3 * steps - 3 :]


@pytest.mark.parametrize("count", [1, 3])
def test_a_step_that_failed_is_forgotten(halves, count):
    """By the server, too, which was left in the middle of it and does not wait for the rest."""
    started = time.monotonic()
    whole, edge, cloud = halves
    server = Server(cloud, threads=1)
    session = opened(edge, connect(edge, server, in_flight=count))
    good = session.trainables()
    for _ in range(2):
        session.set_trainables({key: np.full_like(values, 3e38) for key, values in good.items()})
        with pytest.raises(mebp.Error, match="not finite"):
            train(session, 1)
        session.set_trainables(good)
    assert session.steps == 0
    assert train(session) == train(opened(whole))
    del session  # which waits for all sessions of this server
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("kept", [(0, 0), (1, 1)], ids=str)
def test_planned_bytes_are_those_of_the_session(folder, kept):
    _, edge, cloud = compile_both(folder, "bf16", kept)
    server = Server(cloud)
    one, more = other_peaks(edge)["adamw, accumulated"], inspect(edge)["plan"]["in_flight_bytes"]
    assert more > 0 == inspect(cloud)["plan"]["in_flight_bytes"]
    for count in (1, 2, 5):
        session = opened(edge, connect(edge, server, in_flight=count), return_gradients=False)
        assert session.plan["planned_peak_bytes"] == one + (count - 1) * more


def test_refusals(halves):
    whole, edge, cloud = halves
    server = Server(cloud)
    for count in (0, 65):
        with pytest.raises(mebp.Error, match=f"^--in-flight is {count}; give 1 to 64$"):
            connect(edge, server, in_flight=count)
    with pytest.raises(mebp.Error, match="^several micro-batches in flight are for NAME.edge.mebp"):
        opened(whole, connect(edge, server, in_flight=2))
    with pytest.raises(mebp.Error, match="which has one; create the session with accumulate"):
        mebp.Session(edge, stream=connect(edge, server, in_flight=2))
    with pytest.raises(mebp.Error, match="^--in-flight is about a server; give --connect HOST:PORT, too$"):
        open_stream(edge, in_flight=2)
    for options in ({"optimizer": "mezo"}, {"forward_only": True}):
        with pytest.raises(mebp.Error, match="^several micro-batches in flight are for steps by gradients"):
            opened(edge, connect(edge, server, in_flight=2), **options)


def test_each_has_a_session_of_the_server(halves):
    _, edge, cloud = halves
    plan = inspect(cloud)["plan"]
    size = plan["peak_bytes"] + plan["generation_peak_bytes"] - 2 * plan["process_bytes"]
    server = Server(cloud, memory_limit=2 * size)
    with pytest.raises(mebp.Error, match="^the server has no room for one more session"):
        opened(edge, connect(edge, server, in_flight=3))
