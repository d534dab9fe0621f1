# SPDX-License-Identifier: Apache-2.0
"""A value head on an adapter of its own: two adapters and two optimizer states in one session, one in use at a time."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import mebp
from mebp.compiler import check_options
from mebp.inspect import inspect
from mebp.verification.inputs import randomise_adapter
from support import models
from support.pipeline import make_bundle

LENGTH = 24
IDS = (np.arange(LENGTH) * 7 % 50)[None]
HEAD = "value_head.weight"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return made(tmp_path_factory.mktemp("value-adapter"))


def made(folder, **options):
    folder.mkdir(exist_ok=True)
    model = models.build("llama", num_hidden_layers=2)
    return make_bundle(model, folder, seq_len=LENGTH, **{"value_head": True, **options})


def begin(bundle, **options):
    """With two adapters that differ."""
    session = mebp.Session(bundle, **{"accumulate": True, "value_adapter": True, "lr": 1e-2, **options})
    randomise_adapter(session, seed=1)
    with session.by_value_adapter():
        randomise_adapter(session, seed=2)
    return session


def step(session) -> None:
    with session.by_value_adapter():
        session.sequence(IDS).backward(np.zeros((1, LENGTH - 1)), values=np.full((1, LENGTH - 1), 0.1))
        session.apply()
    session.sequence(IDS).backward(np.full((1, LENGTH - 1), -0.1))
    session.apply()


def both(session) -> dict[str, np.ndarray]:
    policy = session.trainables()
    with session.by_value_adapter():
        return policy | {f"value/{key}": values for key, values in session.trainables().items()}


def are_equal(one, other) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def test_each_is_what_a_session_of_its_own_would_have(bundle):
    """Bitwise: scores, and trainables after steps of AdamW, whose moments and counts are each adapter's."""
    session = begin(bundle)
    alone = [mebp.Session(bundle, accumulate=True, lr=1e-2) for _ in range(2)]
    for number, one in enumerate(alone, start=1):
        randomise_adapter(one, seed=number)
    for _ in range(3):
        step(session)
        alone[0].sequence(IDS).backward(np.full((1, LENGTH - 1), -0.1))
        alone[1].sequence(IDS).backward(np.zeros((1, LENGTH - 1)), values=np.full((1, LENGTH - 1), 0.1))
        for one in alone:
            one.apply()
    assert session.steps == 3
    expected = [one.trainables() for one in alone]
    assert are_equal(both(session), expected[0] | {f"value/{key}": value for key, value in expected[1].items()})
    assert np.array_equal(session.scores(IDS).logprobs, alone[0].scores(IDS).logprobs)
    with session.by_value_adapter():
        assert np.array_equal(session.scores(IDS).values, alone[1].scores(IDS).values)
        assert np.array_equal(session.logprobs(IDS, adapter=False), alone[0].logprobs(IDS, adapter=False))


def test_they_begin_alike(bundle):
    session = mebp.Session(bundle, accumulate=True, value_adapter=True)
    policy = session.trainables()
    with session.by_value_adapter():
        assert are_equal(session.trainables(), policy)


def test_adapter(bundle, tmp_path):
    """One folder has both; a session with one adapter takes the policy's, and then the head has learned nothing."""
    session, folder = begin(bundle), tmp_path / "adapter"
    session.save_adapter(folder)
    assert load_file(folder / "value_adapter.safetensors").keys() == load_file(
        folder / "adapter_model.safetensors").keys()  # fmt: skip
    with session.by_value_adapter():
        assert np.array_equal(load_file(folder / "value_head.safetensors")[HEAD], session.trainables()[HEAD])
    again = mebp.Session(bundle, accumulate=True, value_adapter=True)
    again.load_adapter(folder)
    with again.by_value_adapter():
        again.load_adapter(folder)
    policy = both(session)
    policy |= {key: np.zeros_like(value) for key, value in policy.items() if key.startswith("value_head.")}
    assert are_equal(both(again), policy)
    one = mebp.Session(bundle)
    one.load_adapter(folder)
    assert are_equal(one.trainables(), {key: value for key, value in policy.items() if not key.startswith("value/")})
    one.save_adapter(folder)  # nothing of the other session stays
    assert not (folder / "value_adapter.safetensors").exists()
    with again.by_value_adapter():  # begins where the policy does
        again.load_adapter(folder)
        assert are_equal(again.trainables(), one.trainables())


@pytest.mark.parametrize("options", [{}, {"state_in_file": True}], ids=["memory", "file"])
def test_state(bundle, tmp_path, options):
    """What is saved has both with their optimizer states, whichever is in use; and what is in a file has the same
    bits."""
    options = options | {"spill_folder": tmp_path} if options else {}
    session, expected = begin(bundle, **options), begin(bundle)
    for one in (session, expected):
        step(one)
    with session.by_value_adapter():
        session.save_state(tmp_path / "state", b"two")
    again = mebp.Session(bundle, accumulate=True, value_adapter=True, lr=1e-2, **options)
    with again.by_value_adapter():
        assert again.load_state(tmp_path / "state") == b"two"
    assert again.steps == 1
    for one in (session, expected, again):
        step(one)
    assert are_equal(both(session), both(expected)) and are_equal(both(again), both(expected))
    again.pause(tmp_path / "state")
    again.resume()
    assert are_equal(both(again), both(expected))
    with pytest.raises(mebp.Error, match="has tensors that this session does not keep"):
        mebp.Session(bundle, accumulate=True, lr=1e-2).load_state(tmp_path / "state")


def test_half_a_step_is_not_saved(bundle, tmp_path):
    session = begin(bundle)
    session.save_state(tmp_path / "state")
    with session.by_value_adapter():
        session.sequence(IDS).backward(np.zeros((1, LENGTH - 1)), values=np.ones((1, LENGTH - 1)))
        session.apply()
    assert session.steps == 0 and session.is_poisoned
    line = "has taken a step that the other has not; finish the step, or load the last saved state"
    for save in (session.save_state, session.save_adapter):
        with pytest.raises(mebp.Error, match=line):
            save(tmp_path / "half")
    session.load_state(tmp_path / "state")
    assert not session.is_poisoned
    assert are_equal(both(session), both(begin(bundle)))


def test_an_error_within_leaves_the_policy_in_use(bundle):
    session = begin(bundle)
    before = both(session)
    with pytest.raises(mebp.Error, match="coefficient"), session.by_value_adapter():
        session.sequence(IDS).backward(np.zeros((1, LENGTH - 1)), values=np.ones((1, LENGTH - 1)))
        session.sequence(IDS).backward(np.full((1, LENGTH - 1), np.nan))
    assert are_equal(both(session), before)


def test_memory(tmp_path):
    """Another adapter and another optimizer state, and no more; what a session takes is what mebpc planned."""
    peaks = {}
    for own in (False, True):
        for spill in ("none", "all"):
            bundle = made(
                tmp_path / f"{own}-{spill}", objective="ppo", value_adapter=own, spill=spill, generate_len=LENGTH
            )
            session = mebp.Session(bundle, accumulate=True, value_adapter=own, return_gradients=False)
            plan = inspect(bundle)["plan"]
            beside = sum(each["bytes"] for each in plan["buffers"] if each["name"] == "writing")
            assert plan["peak_bytes"] == session.plan["planned_peak_bytes"] + beside
            peaks[own, spill] = plan["peak_bytes"]
            if not own:
                elements = sum(-(-value.size // 16) * 16 for value in session.trainables().values())
    assert peaks[True, "none"] - peaks[False, "none"] == 3 * 4 * elements  # the adapter's and AdamW's
    assert peaks[True, "all"] == peaks[False, "all"]


def test_refusals(bundle, tmp_path):
    with pytest.raises(mebp.Error, match="gives no values; compile it with --value-head"):
        mebp.Session(made(tmp_path / "plain", value_head=False), accumulate=True, value_adapter=True)
    for options in ({}, {"accumulate": True, "forward_only": True}):
        with pytest.raises(mebp.Error, match="value_adapter is trained over sequences"):
            mebp.Session(bundle, value_adapter=True, **options)
    one = mebp.Session(bundle, accumulate=True)
    with (
        pytest.raises(mebp.Error, match="the session has one adapter; create it with value_adapter"),
        one.by_value_adapter(),
    ):
        pass
    session = begin(bundle)
    sequence = session.sequence(IDS)
    with session.by_value_adapter():
        assert not sequence.is_open
    session.sequence(IDS).backward(np.zeros((1, LENGTH - 1)))
    with pytest.raises(mebp.Error, match="apply or discard them before the other one's"), session.by_value_adapter():
        pass
    for options, line in (
        ({}, "--value-adapter: is an adapter of a value head's own; leave it out, or give --value-head"),
        (
            {"value_head": True, "objective": "grpo"},
            "--value-adapter: is not for --objective grpo; leave it out, or give --objective ppo",
        ),
    ):
        with pytest.raises(mebp.Error) as caught:
            check_options({"value_adapter": True, **options})
        assert str(caught.value) == line
