# SPDX-License-Identifier: Apache-2.0
"""Drafts by prompt lookup: the same text in fewer passes."""

import io

import numpy as np
import pytest

import mebp
from mebp.cli.main import main
from mebp.split import Server, connect
from mebp.wire import Wire, crossed
from support.models import build
from support.pipeline import make_bundle
from support.split import compile_both
from support.textmodel import make_text_bundle

POSITIONS, NEW = 96, 40
# Gemma 3's window is 16, so its rings go round at 64 positions.
MODELS = {"f32": ("llama", "f32", "f32"), "int4": ("llama", "bf16", "int4"), "window": ("gemma3_text", "bf16", "int8")}
CHOICES = {
    "greedy": {},
    "sampled": {"temperature": 0.05, "top_k": 20, "seed": 3},
    "penalised": {"repetition_penalty": 1.02},
}


@pytest.fixture(scope="module", params=MODELS)
def session(request, tmp_path_factory) -> mebp.Session:
    family, precision, weights = MODELS[request.param]
    bundle = make_bundle(
        build(family), tmp_path_factory.mktemp(request.param), seq_len=32, batch=2, weights=weights,
        precision=precision, generate_len=POSITIONS, chunk_size=16,
    )  # fmt: skip
    return mebp.Session(bundle, generate_only=True, threads=2)


def prompt(session: mebp.Session, seed: int) -> np.ndarray:
    """It repeats itself, as text does."""
    piece = np.random.default_rng(seed).integers(0, session.vocabulary, (1, 7))
    return np.concatenate([piece, piece, piece[:, :4]], axis=1)


@pytest.mark.parametrize("choice", CHOICES)
def test_the_text_is_that_without_drafts(session, choice):
    passes = []
    for seed in range(3):
        ids = prompt(session, seed)
        expected = session.generate(ids, NEW, **CHOICES[choice])
        for drafts in (1, 3, 8):
            source = session.keys_and_values()
            got = session.generate(ids, NEW, drafts=drafts, source=source, **CHOICES[choice])
            assert got.tolist() == expected.tolist(), drafts
            assert source.tokens == NEW - 1  # the first one is the prompt's
            passes.append(source.passes)
    assert min(passes) < NEW - 1  # some of them were right


def test_up_to_the_last_position(session):
    ids = prompt(session, 0)
    expected = session.generate(ids, POSITIONS - 18)
    assert session.generate(ids, POSITIONS - 18, drafts=8).tolist() == expected.tolist()


def test_a_conversation_goes_on(session):
    """What was drafted and not chosen is no part of what the next prompt begins with."""
    plain, drafted = session.keys_and_values(), session.keys_and_values()
    ids = prompt(session, 1)
    for new in (6, 9, 5):
        texts = [session.generate(ids, new, source=plain), session.generate(ids, new, source=drafted, drafts=5)]
        assert texts[0].tolist() == texts[1].tolist()
        ids = np.concatenate([texts[0], prompt(session, 2)[:, :6]], axis=1)


def test_refusals(session, bundle):
    ids = prompt(session, 0)
    with pytest.raises(mebp.Error, match="drafts is -1"):
        session.generate(ids, 2, drafts=-1)
    with pytest.raises(mebp.Error, match="drafts is 16, and the bundle computes up to 15 at once; give fewer"):
        session.generate(ids, 2, drafts=16)
    with pytest.raises(mebp.Error, match="drafts are of one sequence at a time, and there are 2"):
        session.generate(ids, 2, drafts=2, samples=2)
    with pytest.raises(mebp.Error, match="drafts need a bundle that keeps keys and values; compile it with --generate"):
        mebp.Session(bundle).generate(ids, 2, drafts=2)


@pytest.mark.parametrize(("precision", "kept"), [("f32", (0, 0)), ("bf16", (1, 1))])
def test_over_device_and_server(tmp_path, precision, kept):
    """The bits of one process, and a pass of any length costs one decoded token's round trips."""
    whole, edge, cloud = compile_both(tmp_path, precision, kept)
    one = mebp.Session(whole, generate_only=True, threads=1)
    two = mebp.Session(edge, generate_only=True, threads=1, stream=connect(edge, Server(cloud, threads=1)))
    ids = prompt(one, 0)[:, :16]
    expected = one.generate(ids, 28)
    wire = Wire(edge)
    trips = []
    for drafts in (0, 4):
        source, before = two.keys_and_values(), np.array(crossed(two))
        assert two.generate(ids, 28, drafts=drafts, source=source).tolist() == expected.tolist()
        up, down = (np.array(crossed(two)) - before)[2:]
        messages = [wire.prompt(16), *[wire.token()] * source.passes]
        assert up == sum(it.up_messages for it in messages)
        assert down == sum(it.down_messages for it in messages)
        trips.append(source.passes)
    assert trips[0] == 27 and trips[1] < 27


def test_the_commands(tmp_path, monkeypatch, capsys):
    bundle = str(make_text_bundle(tmp_path, generate_len=200))
    generate = ["generate", bundle, "--prompt", "a b a b a b", "--max-new-tokens", "20"]
    for command in (generate, ["chat", bundle, "--max-new-tokens", "20"]):
        answers = []
        for drafts in ([], ["--drafts", "4"]):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a b a b\nagain\n")))
            assert main([*command, *drafts]) == 0
            found = capsys.readouterr()
            answers.append(found.out)
            assert ("mebp: note: drafts gave " in found.err) == bool(drafts)
        assert answers[0] == answers[1]
    assert main([*generate, "--drafts", "-2"]) == 2
    assert capsys.readouterr().err == "mebp: drafts is -2; give a whole number of at least 0\n"
