# SPDX-License-Identifier: Apache-2.0
"""What a run chooses that nobody has told how long to train, how it says so, and what a state has of it."""

import json
from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.training import defaults, state
from mebp.training.options import TrainingOptions
from mebp.training.schedule import schedule_notes


def options(**given: object) -> TrainingOptions:
    return TrainingOptions("a.mebp", "data.txt", **given)


@pytest.mark.parametrize(
    ("steps_per_pass", "length"),
    [
        (1, {"epochs": 10}),
        (20, {"epochs": 10}),
        (21, {"epochs": 10}),
        (23, {"epochs": 9}),
        (50, {"epochs": 4}),
        (67, {"epochs": 3}),
        (127, {"epochs": 3}),
        (1000, {"epochs": 3}),
        (1001, {"steps": 3000}),
        (100_000, {"steps": 3000}),
    ],
)
def test_how_long(steps_per_pass, length):
    found = defaults.decide(options(), steps_per_pass, measures=False, holds_out=False)
    assert {name: getattr(found, name) for name in length} == length
    assert found.keep is None and found.patience is None and found.val_split is None


def test_who_says_how_long_says_it_all():
    for given in ({"steps": 7}, {"epochs": 1}, {"objective": "dpo"}, {"task": "fill-mask"}):
        asked = options(**given)
        assert defaults.decide(asked, 10, measures=True, holds_out=False) is asked
        assert asked.hold_out is None


def test_the_best_is_kept_where_something_is_measured():
    found = defaults.decide(options(adapter_out=Path("a")), 50, measures=True, holds_out=True)
    assert (found.keep, found.patience, found.val_split, found.eval_every) == ("best", 3, 0.05, None)
    assert defaults.decide(options(), 50, measures=True, holds_out=True).keep is None  # there is nowhere to keep it
    given = options(adapter_out=Path("a"), keep="last", patience=9, eval="b.txt")
    found = defaults.decide(given, 50, measures=True, holds_out=False)
    assert (found.keep, found.patience, found.val_split) == ("last", 9, None)
    assert defaults.decide(options(), 100_000, measures=True, holds_out=True).eval_every == 300
    assert defaults.decide(options(), 1000, measures=True, holds_out=True).eval_every is None


@pytest.mark.parametrize(
    ("steps_per_pass", "held_out", "line"),
    [
        (
            127,
            "8 of 150 samples",
            "--epochs 3 --val-split 0.05 --keep best --patience 3: passes over the data, 381 steps; 8 of 150 samples "
            "are held out to measure on; ends sooner after 3 evaluations without a lower loss",
        ),
        (20, "", "--epochs 10: passes over the data, 200 steps"),
        (2000, "", "--steps 3000: 1.5 passes over the data"),
        (25_000, "", "--steps 3000: sees 12 % of the data; --epochs 1 takes all of it, in 25,000 steps"),
    ],
)
def test_the_options_that_repeat_it(steps_per_pass, held_out, line):
    given = options(adapter_out=Path("a"))
    found = defaults.decide(given, steps_per_pass, bool(held_out), bool(held_out))
    assert defaults.told(given, found, steps_per_pass, held_out) == [line]
    assert defaults.told(found, found, steps_per_pass, held_out) == []


def saved(monkeypatch, **description: object) -> None:
    monkeypatch.setattr(state, "exists", lambda folder: True)
    monkeypatch.setattr(state, "saved_with", lambda folder: json.loads(json.dumps(description)))


def test_a_state_of_an_older_build_goes_on_with_one_pass(monkeypatch):
    saved(monkeypatch, data="digest")
    found = defaults.as_begun(options(resume=True, state=Path("s")))
    assert found.epochs == 1 and found.hold_out is None and not found.chooses_length
    given = options(resume=True, state=Path("s"), steps=7)
    assert defaults.as_begun(given) == given


def test_a_run_that_goes_on_keeps_what_it_chose(monkeypatch):
    begun = defaults.decide(options(adapter_out=Path("a")), 50, measures=True, holds_out=True)
    saved(monkeypatch, chosen=defaults.stored(begun))
    going_on = {"resume": True, "state": Path("s"), "adapter_out": Path("a")}
    found = defaults.as_begun(options(**going_on))
    assert (found.epochs, found.val_split, found.keep, found.patience) == (4, 0.05, "best", 3)
    longer = defaults.as_begun(options(**going_on, epochs=9))
    assert (longer.epochs, longer.val_split, longer.keep) == (9, 0.05, None)
    saved(monkeypatch, chosen={"steps": 20})
    assert defaults.as_begun(options(**going_on)).steps == 20


@pytest.mark.parametrize(
    "chosen",
    [[], {"epochs": 0}, {"epochs": True}, {"epochs": "3"}, {"val_split": 2.0}, {"keep": "x"}, {"keep": []}, {"lr": 1},
     {"steps": 1 << 60}],
)  # fmt: skip
def test_what_no_run_chooses_is_refused(monkeypatch, chosen):
    saved(monkeypatch, chosen=chosen)
    with pytest.raises(Error) as caught:
        defaults.as_begun(options(resume=True, state=Path("s")))
    assert str(caught.value).startswith("s: was not saved by mebp train (")


def test_a_long_run_is_told_of_schedules():
    assert schedule_notes(100, None) == schedule_notes(5000, "constant") == schedule_notes(5000, "linear") == []
    assert schedule_notes(101, None) == [
        "the learning rate stays as it is over 101 steps; most recipes use --schedule linear --warmup-ratio 0.03"
    ]


def test_a_share_of_the_steps_warms_up():
    assert options(warmup_ratio=0.03).warmup_steps(101) == 4  # as transformers rounds
    assert options(warmup=7).warmup_steps(101) == 7 and options(warmup_ratio=0.0).warmup_steps(9) == 0
