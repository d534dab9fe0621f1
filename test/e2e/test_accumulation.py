# SPDX-License-Identifier: Apache-2.0
"""One optimizer step over several micro-batches, clipping, and what they cost in memory."""

import numpy as np
import pytest
import torch

import mebp
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.pipeline import make_bundle

SEQUENCE = 24
OPTIONS = {"return_gradients": False, "accumulate": False, "clip": None}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_bundle(models.build("llama"), tmp_path_factory.mktemp("accumulation"), seq_len=SEQUENCE, batch=4)


def make_session(bundle, lr=1.0, **options) -> mebp.Session:
    session = mebp.Session(bundle, optimizer="sgd", lr=lr, **{**OPTIONS, **options})
    randomise_adapter(session, seed=1)
    return session


def random_rows(seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Four rows [1, length] of ids and labels; of the labels a random part counts, in one row perhaps none."""
    generator = np.random.default_rng(seed)
    rows = []
    for length in generator.integers(2, SEQUENCE + 1, size=4):
        ids = generator.integers(0, 333, size=(1, length))
        labels = np.where(generator.random((1, length)) < generator.random(), -100, ids)
        rows.append((ids, labels))
    rows[0][1][:] = rows[0][0]
    return rows


def pad(rows: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    ids, labels = np.zeros((len(rows), SEQUENCE), int), np.full((len(rows), SEQUENCE), -100)
    for index, (row, targets) in enumerate(rows):
        ids[index, : row.shape[1]], labels[index, : row.shape[1]] = row, targets
    return ids, labels


def updates(session: mebp.Session, before: dict) -> dict:
    return {key: before[key] - values for key, values in session.trainables().items()}


@pytest.mark.parametrize("seed", range(6))
def test_micro_batches_equal_one_batch(bundle, show, seed):
    rows = random_rows(seed)
    whole, parts = make_session(bundle), make_session(bundle, accumulate=True)
    before = whole.trainables()
    expected = whole.step(*pad(rows))
    # Any split into micro-batches: here each row alone, or the last two together at the longer one's length.
    if seed % 2:
        longest = max(row.shape[1] for row, _ in rows[2:])
        ids, labels = pad(rows[2:])
        rows = [*rows[:2], (ids[:, :longest], labels[:, :longest])]
    result = parts.step([ids for ids, _ in rows], [labels for _, labels in rows])
    assert result.tokens == expected.tokens and parts.steps == 1
    assert result.loss == pytest.approx(expected.loss, rel=1e-6)
    assert result.grad_norm == pytest.approx(expected.grad_norm, rel=1e-5)
    ours, theirs = parts.trainables(), whole.trainables()
    worst = max(relative_error(ours[key], theirs[key]) for key in ours)
    assert worst <= 1e-5
    moved, wanted = updates(parts, before), updates(whole, before)
    both = [np.concatenate([values[key].ravel() for key in before]) for values in (moved, wanted)]
    show(f"micro-batches, seed {seed}: parameters within {worst:.1e}, update within {relative_error(*both):.1e}")
    assert relative_error(*both) <= 1e-5


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("part", [0.1, 0.999, 2.0])
def test_clipping_follows_torch(bundle, accumulate, part):
    ids, labels = pad(random_rows(0))
    plain = make_session(bundle, return_gradients=True)
    _, gradients = plain.loss_and_gradients(ids, labels)
    parameters = {key: torch.nn.Parameter(torch.from_numpy(values)) for key, values in plain.trainables().items()}
    for key, parameter in parameters.items():
        parameter.grad = torch.from_numpy(gradients[key])
    norm = plain.step(ids, labels).grad_norm
    clip = part * norm

    expected_norm = torch.nn.utils.clip_grad_norm_(parameters.values(), clip)
    torch.optim.SGD(parameters.values(), lr=1.0).step()

    session = make_session(bundle, accumulate=accumulate, clip=clip)
    result = session.step(ids, labels)
    assert result.grad_norm == pytest.approx(float(expected_norm), rel=1e-6)
    assert result.grad_norm == pytest.approx(norm, rel=1e-6)
    ours = session.trainables()
    assert max(relative_error(ours[key], value.detach().numpy()) for key, value in parameters.items()) <= 1e-6


def test_the_plan_counts_what_a_session_holds(bundle):
    threads = make_session(bundle).plan["threads"]
    plans = {}
    for keep in (False, True):
        for accumulate in (False, True):
            for clip in (None, 1.0):
                options = {"return_gradients": keep, "accumulate": accumulate, "clip": clip}
                plan = mebp.Session(bundle, threads=threads, **options).plan
                assert plan["planned_peak_bytes"] == plan["process_bytes"] + plan["session_bytes"]
                plans[keep, accumulate, clip is not None] = plan
    least = plans[False, False, False]
    assert least["planned_peak_bytes"] == least["peak_bytes"]
    trainables = least["arenas"]["trainables"]
    # A sum stands beside the gradients of the block that runs, which lie in memory of their own without it.
    assert plans[False, False, True] == plans[True, False, False] == plans[True, False, True]
    held = plans[True, False, False]["session_bytes"] - least["session_bytes"]
    # Else what the head takes and gives lies where gradients come: four numbers a token, beside its id and label.
    assert held == trainables + 2 * least["arenas"]["tokens"] - least["arenas"]["gradients"]
    for (_, accumulate, _), plan in plans.items():
        if accumulate:
            assert plan["session_bytes"] == least["session_bytes"] + trainables


def test_refusals(bundle):
    ids = np.ones((1, 8), int)
    plain, session = make_session(bundle), make_session(bundle, accumulate=True)
    before = session.trainables()
    refused = {
        "create the session with accumulate": (plain, [ids, ids], [ids, ids]),
        "are lists of different lengths": (session, [ids, ids], [ids]),
        "give both as such lists": (session, [ids], ids),
        r"labels\[1\] \[1, 7\]": (session, [ids, ids], [ids, ids[:, :7]]),
        r"input_ids\[1\] has dtype float64": (session, [ids, ids * 0.5], [ids, ids]),
        "micro-batch 1: token 333": (session, [ids, ids * 333], [ids, ids]),
        "no label counts": (session, [ids, ids], [ids * -100, ids * -100]),
    }
    for words, (one, *batches) in refused.items():
        with pytest.raises(mebp.Error, match=words):
            one.step(*batches)
        assert one.steps == 0
    after = session.trainables()
    assert all(np.array_equal(values, after[key]) for key, values in before.items())
    for clip in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(mebp.Error, match="clip is .* above 0, or None"):
            mebp.Session(bundle, clip=clip)


def test_a_loss_that_is_not_finite_changes_nothing(bundle):
    session = make_session(bundle, accumulate=True, clip=1.0)
    values = session.trainables()
    key = next(key for key in values if "lora_B" in key)
    broken = values[key].copy()
    broken[0, 0] = np.nan
    session.set_trainables({key: broken})
    with pytest.raises(mebp.Error, match="the loss is nan"):
        session.step([np.ones((1, 8), int)] * 2, [np.ones((1, 8), int)] * 2)
    after = session.trainables()
    assert session.steps == 0
    assert all(np.array_equal(after[other], values[other]) for other in values if other != key)


def test_nested_lists_are_one_batch(bundle):
    session, other = make_session(bundle), make_session(bundle)
    assert session.step([[1, 2, 3]], [[1, 2, 3]]).loss == other.step(np.array([[1, 2, 3]]), np.array([[1, 2, 3]])).loss
