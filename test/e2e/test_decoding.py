# SPDX-License-Identifier: Apache-2.0
"""Generating by keys and values: the same text as transformers', the same bits however a prompt is cut."""

import numpy as np
import pytest
import torch

import mebp
from mebp.extension import load_runtime
from support.models import build, token_ids
from support.pipeline import make_bundle

POSITIONS, BATCH, CHUNK = 96, 3, 16
# Gemma's window is 16, so its rings go round at 64 positions; the other families read everything.
FAMILIES = [
    "llama",
    "qwen2",
    "qwen3",
    "gemma3_text",
    "phi3",
    "gpt2",
    "cohere",
    "gemma2",
    "opt",
    "phi",
    "qwen3_moe",
    "glm4_moe",
    "deepseek_v3",
    "bloom",
    "mpt",
]


class Model:
    def __init__(self, family: str, folder) -> None:
        self.reference = build(family)
        self.bundle = make_bundle(
            self.reference, folder, seq_len=32, batch=BATCH, weights="f32", generate_len=POSITIONS, chunk_size=CHUNK
        )

    def session(self, **options: object) -> mebp.Session:
        return mebp.Session(self.bundle, **{"generate_only": True, "threads": 1, **options})

    def ids(self, length: int, batch: int = 1, seed: int = 0) -> np.ndarray:
        return token_ids(self.reference, batch, length, seed).numpy().astype(np.int32)


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, tmp_path_factory) -> Model:
    return Model(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Model:
    return Model("llama", tmp_path_factory.mktemp("llama"))


def _native(session: mebp.Session) -> object:
    return load_runtime().Generation(session._session)


def test_greedy_text_is_that_of_transformers(model):
    """Every chosen token has transformers' highest logit, but for what f32 rounds."""
    ids = model.ids(20, BATCH)
    new = 64
    got = model.session().generate(ids, max_new_tokens=new)
    expected = model.reference.generate(
        torch.from_numpy(ids).long(), max_new_tokens=new, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    assert got.tolist() == expected.tolist()


def test_logits_are_those_of_the_forward_pass(model):
    """At every position, whether tokens come one by one or in chunks of any size."""
    ids = model.ids(32)
    expected = mebp.Session(model.bundle, forward_only=True, threads=1).logits(ids)[0]
    scale = np.abs(expected).max()
    session = model.session()
    for first in range(1, 32):
        native = _native(session)
        assert np.abs(native.append(ids[:, :first])[0] - expected[first - 1]).max() < 2e-5 * scale
        for position in range(first, min(first + 3, 32)):
            logits = native.append(ids[:, position : position + 1])[0]
            assert np.abs(logits - expected[position]).max() < 2e-5 * scale


@pytest.mark.parametrize("threads", [1, 2])
def test_a_prompt_gives_the_same_bits_however_it_is_cut(model, threads):
    ids = model.ids(90)
    whole = _native(model.session()).append(ids)
    session = model.session(threads=threads)
    for pieces in ([45, 45], [2, 88], [88, 2], [16, 16, 16, 16, 16, 10], [7] * 12 + [6], [3] * 30):
        native, done = _native(session), 0
        for piece in pieces:
            logits = native.append(ids[:, done : done + piece])
            done += piece
        assert (logits == whole).all(), pieces


def test_rows_do_not_know_of_each_other(llama):
    """Bitwise: prompts side by side, samples of one prompt, and each by itself."""
    ids = llama.ids(20, BATCH)
    session = llama.session()
    together = session.generate(ids, max_new_tokens=40)
    for row in range(BATCH):
        assert (session.generate(ids[row : row + 1], max_new_tokens=40)[0] == together[row]).all()
    samples = session.generate(ids[:1], max_new_tokens=40, samples=BATCH)
    assert (samples == together[0]).all()


def test_samples_differ_and_a_seed_repeats_them(llama):
    options = {"max_new_tokens": 30, "samples": BATCH, "temperature": 1.5, "top_k": 50, "top_p": 0.9, "min_p": 0.01}
    session = llama.session()
    first = session.generate(llama.ids(5), seed=1, **options)
    assert len({tuple(row) for row in first.tolist()}) == BATCH
    assert (first == session.generate(llama.ids(5), seed=1, **options)).all()
    assert not (first == session.generate(llama.ids(5), seed=2, **options)).all()


def test_repetition_penalty_is_that_of_transformers(llama):
    ids = llama.ids(10)
    got = llama.session().generate(ids, max_new_tokens=40, repetition_penalty=1.7)
    expected = llama.reference.generate(
        torch.from_numpy(ids).long(),
        max_new_tokens=40,
        do_sample=False,
        repetition_penalty=1.7,
        eos_token_id=None,
        pad_token_id=0,
    )
    assert got.tolist() == expected.tolist()


def test_what_two_calls_begin_with_is_computed_once(model):
    """Going back behind a window's ring begins anew: the text is the same in any case."""
    session = model.session()
    source = session.keys_and_values()
    ids = model.ids(80)
    for length in (20, 30, 25, 80, 78, 10, 79):
        kept = session.generate(ids[:, :length], max_new_tokens=4, source=source)
        anew = session.generate(ids[:, :length], max_new_tokens=4)
        assert kept.tolist() == anew.tolist(), length


def test_an_adapter_is_used_and_training_goes_on(llama, tmp_path):
    session = mebp.Session(llama.bundle, threads=1, lr=0.1)
    ids = llama.ids(20, BATCH)
    before = session.generate(ids, max_new_tokens=8)
    for _ in range(3):
        session.step(ids, ids)
    after = session.generate(ids, max_new_tokens=8)
    assert not (before == after).all()
    plain = mebp.generation.new_tokens(
        mebp.generation.Recomputed(session), ids.astype(np.int32), 8, set(), mebp.generation.Sampler()
    )
    assert (np.stack(list(plain), axis=1) == after[:, 20:]).all()


def test_refusals(llama):
    session = llama.session()
    with pytest.raises(mebp.Error, match="exceed the compiled length of 96; .* longer --generate-len"):
        session.generate(llama.ids(90), max_new_tokens=7)
    with pytest.raises(mebp.Error, match="4 rows are more than the 3"):
        session.generate(llama.ids(5), samples=4)
    with pytest.raises(mebp.Error, match="a stop string is empty"):
        session.generate(llama.ids(5), stop="")
    with pytest.raises(mebp.Error, match="generate_only"):
        session.loss(llama.ids(5), llama.ids(5))
    with pytest.raises(mebp.Error, match="generate_only"):
        session.logits(llama.ids(5))
    native = _native(session)
    with pytest.raises(mebp.Error, match="97 tokens are more than the 96"):
        native.append(llama.ids(97))
    native.append(llama.ids(5))
    with pytest.raises(mebp.Error, match="there are 1 sequences"):
        native.append(llama.ids(5, 2))
    with pytest.raises(mebp.Error, match="token 333 is beyond the vocabulary of 333"):
        native.append(np.array([[333]], dtype=np.int32))
    assert native.positions() == 5
