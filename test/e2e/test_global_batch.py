# SPDX-License-Identifier: Apache-2.0
"""--global-batch in one process: the gradients of a step's micro-batches are summed in a tree."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.distributed.global_batch import GlobalBatch
from mebp.training.loop import TrainingRun
from support.commands import refusal_in_process

pytestmark = pytest.mark.usefixtures("one_cache")
EXACT = {"weights": "f32", "precision": "f32"}


def train(model: Path, data: Path, **options: object) -> TrainingRun:
    return mebp.train(model, data, **{"steps": 7, "lr": 1e-2, "progress": False, **EXACT, **options})


def expect_the_steps_of_accumulate(model: Path, data: Path, **others: object) -> None:
    summed, in_tree = (train(model, data, **{how: 4}, **others) for how in ("accumulate", "global_batch"))
    for one, other in zip(summed.records, in_tree.records, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-4) and one.tokens == other.tokens
    before = mebp.Session(summed.session.path).trainables()
    for key, values in in_tree.session.trainables().items():
        moved = np.linalg.norm(values - before[key])
        assert np.linalg.norm(values - summed.session.trainables()[key]) < 1e-2 * moved, key


GALORE = {"train": "full", "optimizer": "galore", "galore_rank": 8, "galore_update_interval": 3}


@pytest.mark.parametrize(
    "others",
    [{}, {"clip": 0.5}, {"optimizer": "adamw8bit"}, {"packing": True}, {"batch": 2}, {"optimizer": "mezo"}, GALORE],
)
def test_it_is_the_step_of_accumulate(lamp_model, lamp_data, others):
    """But for the order of the sums."""
    expect_the_steps_of_accumulate(lamp_model, lamp_data, **others)


def test_it_is_so_of_weighed_turns(lamp_model, lamp_turns):
    expect_the_steps_of_accumulate(lamp_model, lamp_turns, turn_weights=True)


@pytest.mark.parametrize(
    "others",
    [{"objective": "dpo"}, {"objective": "dpo", "batch": 4}, {"objective": "dpo", "loss_type": "aot"},
     {"objective": "orpo"}],
    ids=["dpo", "two pairs each", "a loss of all pairs", "orpo"],
)  # fmt: skip
def test_it_is_so_of_pairs(lamp_model, lamp_pairs, others):
    expect_the_steps_of_accumulate(lamp_model, lamp_pairs, **others)


@pytest.mark.parametrize(
    "others", [{"objective": "grpo", "group": 2, "num_iterations": 2}, {"objective": "ppo", "num_mini_batches": 2}],
    ids=["grpo", "ppo"],
)  # fmt: skip
def test_it_is_so_of_a_first_rollout(lamp_model, lamp_prompts, tmp_path, others):
    """The next one is written by an adapter that differs in its last bits."""
    rewarded = {"reward": [f"{tmp_path / 'rewards.py'}:high"], "max_completion": 8, "lr": 1e-3, "steps": 2}
    expect_the_steps_of_accumulate(lamp_model, lamp_prompts, **rewarded, **others)


def test_parts_by_themselves_are_its_gradient(lamp_model, lamp_data):
    """A step of SGD moves by the sum of what two sessions give, each a half of the micro-batches."""

    class Half:
        """One of two processes, of which the other is asked for what it counts and adds nothing."""

        size, is_first = 2, True

        def __init__(self, rank: int) -> None:
            self.rank, self.counted, self.kept = rank, [], None

        def gather(self, values: list[int]) -> np.ndarray:
            self.counted += values
            return np.array([values, [60]])  # 15 of each of 4 rows

        def gather_numbers(self, values: list[float]) -> np.ndarray:
            return np.array([values, [0.0]])

        def exchange(self, sent: Sequence[np.ndarray], received: Sequence[np.ndarray]) -> None:
            """The first of two: what the other has to add. The second: what it has summed."""
            other = 1 - self.rank
            received[self.rank][:] = sent[self.rank]
            received[other][:] = 0 if self.kept is None else self.kept
            self.kept = sent[other].copy() if self.kept is None else None

    bundle = train(lamp_model, lamp_data, global_batch=4, steps=1, batch=2, optimizer="sgd").session.path
    generator = np.random.default_rng(0)
    ids = [generator.integers(0, 259, (2, 16), dtype=np.int32) for _ in range(4)]
    options = {"optimizer": "sgd", "lr": 1.0}

    def moved(of: GlobalBatch) -> dict[str, np.ndarray]:
        session = mebp.Session(bundle, **options, **of.session_options())
        before = session.trainables()
        of.step(session, (ids, ids, None))
        return {key: values - before[key] for key, values in session.trainables().items()}

    halves = [Half(rank) for rank in range(2)]
    first, second, whole = (moved(GlobalBatch(4, group)) for group in (*halves, None))
    assert [half.counted for half in halves] == [[60], [60]]
    for key, values in whole.items():
        np.testing.assert_allclose(first[key] + second[key], values, rtol=1e-4, atol=1e-7, err_msg=key)


def test_arrays_of_all_are_in_order():
    class Group:
        rank, size = 0, 2

        def __init__(self, others: list[float]) -> None:
            self.others = np.array(others)

        def gather_arrays(self, values: np.ndarray) -> list[np.ndarray]:
            return [values, self.others]

    own = {2: np.array([2.5]), 0: np.array([])}
    found = GlobalBatch(4, Group([1, 2, 7, np.inf, 3, 0])).arrays_of_all(own)
    assert [each.tolist() for each in found] == [[], [7, np.inf], [2.5], []]
    for garbled in ([1], [1, -2, 1, 0], [1, 3, 1, 2]):
        with pytest.raises(mebp.Error) as refused:
            GlobalBatch(4, Group(garbled)).arrays_of_all(own)
        assert str(refused.value) == (
            "another process of the group sends no whole arrays; start all from the same mebp"
        )


def test_a_resumed_run_has_the_same_bits(lamp_model, lamp_data, tmp_path):
    whole = train(lamp_model, lamp_data, global_batch=4, state=tmp_path / "whole").session.trainables()
    train(lamp_model, lamp_data, global_batch=4, state=tmp_path / "state", callback=lambda step: step.step == 3)
    rest = train(lamp_model, lamp_data, global_batch=4, state=tmp_path / "state", resume=True).session.trainables()
    for key, values in whole.items():
        np.testing.assert_array_equal(rest[key], values, err_msg=key)
    with pytest.raises(mebp.Error, match="--global-batch"):
        train(lamp_model, lamp_data, global_batch=2, state=tmp_path / "state", resume=True, steps=9)


def test_its_sums_are_in_the_plan(lamp_model, lamp_data):
    """Of 8 micro-batches four at most are open, and one is there in any case."""
    summed, in_tree = (
        train(lamp_model, lamp_data, **{how: 8}, steps=1).session for how in ("accumulate", "global_batch")
    )
    gradients = sum(values.nbytes for values in summed.trainables().values())
    more = in_tree.plan["session_bytes"] - summed.plan["session_bytes"]
    assert 3 * gradients <= more < 3.2 * gradients + 65536


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--global-batch", "0"], "--global-batch is 0; give at least 1"),
        (["--global-batch", "2", "--accumulate", "2"],
         "--global-batch counts the batches of a step in all processes, and --accumulate those of one; give one of "
         "them"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_it_is_refused(lamp_model, lamp_data, options, words, capsys):
    assert refusal_in_process(capsys, "train", lamp_model, "--data", lamp_data, *options) == f"mebp: {words}\n"


def test_half_of_a_model_has_no_such_sum(lamp_data, capsys):
    options = "--data", lamp_data, "--connect", "127.0.0.1:1", "--global-batch", "2"
    assert refusal_in_process(capsys, "train", "tiny.edge.mebp", *options) == (
        "mebp: --global-batch sums gradients that are all here, and with --connect some are the server's; give "
        "--accumulate instead\n"
    )
