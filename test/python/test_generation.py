# SPDX-License-Identifier: Apache-2.0
"""How tokens are drawn, and how their text appears."""

import numpy as np
import pytest
import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

import mebp
from mebp.chat import Chat
from mebp.generation import Sampler
from mebp.streaming import TextStream
from mebp.tokenizer import Tokenizer
from support.textmodel import CHATML, byte_tokenizer, make_tokenizer

DRAWS = 4000


@pytest.fixture
def logits() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 2, (1, 40)).astype(np.float32)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, None, None), (0.5, 5, None), (2.0, None, 0.6), (1.5, 12, 0.8), (1, 1, 1)]
)
def test_draws_follow_the_distribution_of_transformers(logits, temperature, top_k, top_p):
    scores = TemperatureLogitsWarper(float(temperature))(None, torch.from_numpy(logits))
    if top_k:
        scores = TopKLogitsWarper(top_k)(None, scores)
    if top_p:
        scores = TopPLogitsWarper(float(top_p))(None, scores)
    expected = torch.softmax(scores, -1)[0].numpy()
    sampler = Sampler(temperature, top_k, top_p, seed=1)
    counts = np.bincount([sampler.choose(logits)[0] for _ in range(DRAWS)], minlength=40)
    assert not counts[expected == 0].any()
    # Four standard deviations of a binomial count, so that one of 40 tokens lies outside in a run of a thousand.
    assert (np.abs(counts - DRAWS * expected) <= 4 * np.sqrt(DRAWS * expected * (1 - expected)) + 1e-9).all()


@pytest.mark.parametrize(("temperature", "min_p"), [(1.0, 0.1), (0.7, 0.02), (2.0, 1.0)])
def test_min_p_leaves_what_it_leaves_in_transformers(logits, temperature, min_p):
    scores = TemperatureLogitsWarper(temperature)(None, torch.from_numpy(logits))
    expected = torch.softmax(MinPLogitsWarper(min_p)(None, scores), -1)[0].numpy()
    sampler = Sampler(temperature, min_p=min_p, seed=1)
    drawn = {int(sampler.choose(logits)[0]) for _ in range(DRAWS)}
    likely = set(np.flatnonzero(expected > 0.01).tolist())
    assert likely <= drawn <= set(np.flatnonzero(expected).tolist())


def test_the_penalty_is_that_of_transformers(logits):
    before = np.array([[3, 17, 17, int(logits.argmax())]])
    expected = RepetitionPenaltyLogitsProcessor(3.0)(torch.from_numpy(before), torch.from_numpy(logits))
    assert Sampler(repetition_penalty=3.0).choose(logits, before) == expected.argmax(-1).numpy()
    assert Sampler(repetition_penalty=1e6).choose(logits, before) != logits.argmax()


def test_temperature_zero_takes_the_likeliest(logits):
    assert Sampler().choose(logits).tolist() == logits.argmax(axis=-1).tolist()


def test_a_seed_decides_the_draws(logits):
    def draws(seed: int) -> list[int]:
        sampler = Sampler(temperature=2.0, seed=seed)
        return [int(sampler.choose(logits)[0]) for _ in range(20)]

    assert draws(3) == draws(3) != draws(4)


def test_rows_are_drawn_each_by_itself():
    rows = np.full((3, 4), -50, np.float32)
    rows[[0, 1, 2], [2, 0, 3]] = 50
    assert Sampler(temperature=1.0).choose(rows).tolist() == [2, 0, 3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": "warm"}, "temperature is warm"),
        ({"temperature": 1, "top_k": 0}, "top_k is 0; give a whole number of at least 1"),
        ({"temperature": 1, "top_k": 1.5}, "top_k is 1.5"),
        ({"temperature": 1, "top_p": 0}, "top_p is 0; give a number above 0 and up to 1"),
        ({"temperature": 1, "top_p": 1.01}, "top_p is 1.01"),
        ({"temperature": 1, "min_p": 0}, "min_p is 0; give a number above 0 and up to 1"),
        ({"temperature": 1, "min_p": float("nan")}, "min_p is nan"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0; give a finite number above 0"),
        ({"min_p": 0.5}, "min_p needs a temperature above 0"),
        ({"top_k": 3}, "top_k needs a temperature above 0"),
        ({"top_p": 0.5}, "top_p needs a temperature above 0"),
        ({"temperature": 1, "seed": -1}, "seed is -1"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(mebp.Error, match=words):
        Sampler(**options)


def test_logits_that_are_not_finite_are_refused(logits):
    logits[0, 7] = np.nan
    for temperature in (0.0, 1.0):
        with pytest.raises(mebp.Error, match="not finite"):
            Sampler(temperature).choose(logits)


@pytest.mark.parametrize(
    "text", ["Plain words.", "  spaces around \n\n", "é ü 日本語 🎉👩‍🚀", "\ufffd within", "", " \n"]
)
def test_text_appears_whole_characters_at_a_time(text):
    tokenizer = byte_tokenizer()  # a token is a byte
    stream = TextStream(tokenizer.decode)
    pieces = [stream.add(token) for token in tokenizer.encode(text).ids]
    assert "\ufffd" not in "".join(pieces).replace("\ufffd within", "")
    assert "".join(pieces) + stream.end() == text.strip()
    if text.startswith("Plain"):
        assert pieces == ["P", "l", "a", "i", "n", "", " w", "o", "r", "d", "s", "."]


@pytest.mark.parametrize(
    ("text", "stops", "shown"),
    [
        ("one. two. three", [". t"], "one"),
        ("one. two", ["never"], "one. two"),
        ("ab ababac", ["abac", "abad"], "ab ab"),
        ("no end sto", ["stop"], "no end sto"),
        ("日本語", ["語"], "日本"),
        ("stop", ["stop"], ""),
        ("first second", ["second", "first s"], ""),
    ],
)
def test_text_ends_before_a_stop_string(text, stops, shown):
    tokenizer = byte_tokenizer()
    stream = TextStream(tokenizer.decode, stops)
    pieces = []
    for token in tokenizer.encode(text).ids:
        pieces.append(stream.add(token))
        assert shown.startswith("".join(pieces))
        if stream.has_stopped:
            break
    assert "".join([*pieces, stream.end()]) == shown
    assert stream.has_stopped == (shown != text)


def test_text_that_ends_within_a_character():
    tokenizer = byte_tokenizer()
    stream = TextStream(tokenizer.decode)
    tokens = tokenizer.encode("a🎉").ids[:-1]
    assert "".join(stream.add(token) for token in tokens) == "a"
    assert stream.end() == tokenizer.decode(tokens)[1:] != ""


@pytest.mark.parametrize(
    ("template", "ends"),
    [
        (CHATML, {"<|endoftext|>", "<|im_end|>"}),
        ("{% for m in messages %}{{ m['content'] + eos_token }}{% endfor %}", {"<|endoftext|>"}),
        ("{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}", {"<|endoftext|>"}),
    ],
)
def test_an_answer_ends_where_its_turn_does(tmp_path, template, ends):
    fast = make_tokenizer(tmp_path / "tokenizer", template)
    stop = Chat(Tokenizer(tmp_path)).stop_tokens()
    assert stop == set(fast.convert_tokens_to_ids(list(ends)))
