# SPDX-License-Identifier: Apache-2.0
"""One model over a device and a server computes the bits of one process."""

import shutil
import time
from dataclasses import replace

import numpy as np
import pytest

import mebp
from mebp.certificates import make_certificates
from mebp.inspect import inspect
from mebp.split import Credentials, Server, connect
from support import models
from support.split import BATCH, PRIVATE, SEQUENCE, STEPS, compile_both, same, tokens, trained

KEPT = {"K = N = 0": (0, 0), "K = N = 1": (1, 1), "K = 2": (2, 0)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("split")


@pytest.fixture(scope="module")
def halves(folder):
    return compile_both(folder)


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_bits_of_one_process(folder, precision, kept):
    whole, edge, cloud = compile_both(folder, precision, KEPT[kept])
    server = Server(cloud, threads=3)
    one = mebp.Session(whole, lr=5e-2, threads=1)
    two = mebp.Session(edge, lr=5e-2, threads=2, stream=connect(edge, server))
    for step in range(STEPS):
        ids, labels = tokens(one, step)
        assert one.step(ids, labels).loss == two.step(ids, labels).loss
    ids, labels = tokens(one)
    first, second = one.loss_and_gradients(ids, labels), two.loss_and_gradients(ids, labels)
    assert first[0] == second[0] and same(first[1], second[1])
    assert all(values.any() for values in first[1].values())
    assert same(one.trainables(), two.trainables())
    assert one.loss(ids, labels) == two.loss(ids, labels)
    # In one wave; in two; and likewise of two sequences at once.
    for prompt in (ids[:1, :11], ids[:1, :35], ids[:, :20]):
        for way in ({}, {"temperature": 0.7, "seed": 3}):
            answers = [session.generate(prompt, max_new_tokens=12, **way) for session in (one, two)]
            assert np.array_equal(*answers)


def test_chunks(folder):
    whole, edge, cloud = compile_both(folder, "f32", (0, 0), "--chunk-size=7")
    assert same(trained(whole), trained(edge, connect(edge, Server(cloud))))


def test_text_that_a_window_has_lost(tmp_path):
    """A conversation that goes on further back than the server's layers keep is computed again from its beginning."""
    model = models.build("mistral", num_hidden_layers=3, sliding_window=8)
    mebp.export(model, tmp_path / "model.onnx", seq_len=SEQUENCE, batch=BATCH)
    whole, edge, cloud = compile_both(tmp_path, "f32", (0, 0), "--chunk-size=8", positions=200)
    one = mebp.Session(whole, threads=1)
    two = mebp.Session(edge, threads=1, stream=connect(edge, Server(cloud)))
    said, source = np.arange(180, dtype=np.int32)[np.newaxis], two.keys_and_values()
    for kept, new in ((180, 6), (176, 3), (90, 5), (20, 1), (60, 2)):
        prompt = np.concatenate([said[:, :kept], np.full((1, new), 7, np.int32)], axis=1)
        assert np.array_equal(one.generate(prompt, 4), two.generate(prompt, 4, source=source))


def test_accumulated_and_clipped(halves):
    whole, edge, cloud = halves
    states = []
    for bundle, stream in ((whole, None), (edge, connect(edge, Server(cloud)))):
        session = mebp.Session(bundle, stream=stream, lr=5e-2, threads=1, accumulate=True, clip=0.1)
        for step in range(STEPS):
            batches = [tokens(session, 2 * step), tokens(session, 2 * step + 1)]
            session.step([ids for ids, _ in batches], [labels for _, labels in batches])
        states.append(session.trainables())
    assert same(*states)


@pytest.fixture(scope="module")
def credentials(tmp_path_factory) -> tuple[Credentials, Credentials]:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return tuple(
        Credentials(folder / f"{name}.pem", folder / f"{name}.key", folder / "ca.pem") for name in ("server", "client")
    )


def test_over_tls(halves, credentials):
    whole, edge, cloud = halves
    server = Server(cloud, threads=1)
    port = server.listen("127.0.0.1:0", credentials[0])
    assert same(trained(whole), trained(edge, connect(edge, f"127.0.0.1:{port}", credentials[1])))
    server.stop()


def test_halves_alone(halves):
    _, edge, cloud = halves
    session = mebp.Session(edge)
    with pytest.raises(mebp.Error, match="^the bundle is the device's half of a model, whose layers are on a server"):
        session.loss(*tokens(session))
    session = mebp.Session(cloud)
    with pytest.raises(mebp.Error, match="^the bundle is the server's half of a model"):
        session.loss(*tokens(session))
    with pytest.raises(mebp.Error, match="is not the server's half of a model; give NAME.cloud.mebp"):
        Server(edge)


@pytest.mark.parametrize("precision, more, rank", [("bf16", [], 5), ("f32", ["--wire=bf16"], 5), ("f32", [], 6)],
                         ids=["type", "wire", "rank"])  # fmt: skip
def test_another_pair_is_refused(folder, halves, tmp_path, precision, more, rank):
    for file in folder.glob("model.*"):
        shutil.copy(file, tmp_path)
    other = compile_both(tmp_path, precision, (0, 0), *more, adapter=replace(PRIVATE, rank_down=rank))
    with pytest.raises(mebp.Error, match="half of another model"):
        mebp.Session(halves[1], stream=connect(halves[1], Server(other[2])))


def test_memory_limit(halves):
    server = Server(halves[2], memory_limit=1000)
    with pytest.raises(mebp.Error, match="^the server has no room for one more session, which needs .* MB"):
        mebp.Session(halves[1], stream=connect(halves[1], server))


def test_nothing_private_lies_on_the_server(halves):
    """Neither the embedding, the head nor a tokenizer; and of the device's half no layer's weights."""
    names = [{weight["name"] for weight in inspect(half)["weights"]} for half in halves[1:]]
    assert {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"} <= names[0]
    assert not any(".layers." in name for name in names[0])
    assert not names[1] & names[0] and all(".layers." in name for name in names[1])
    assert not (halves[2] / "tokenizer").exists()


def test_a_server_that_is_gone(halves):
    started = time.monotonic()
    with pytest.raises(mebp.Error, match="127.0.0.1:9"):
        mebp.Session(halves[1], stream=connect(halves[1], "127.0.0.1:9"))
    assert time.monotonic() - started < 60
