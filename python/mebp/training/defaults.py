# SPDX-License-Identifier: Apache-2.0
"""What a run chooses that nobody has told how long to train: passes, evaluations, and which step it keeps.

All of it are options, which the run prints and its state keeps: whoever gives them gets the same run again.
"""

import shlex
from dataclasses import replace

from mebp.compile_options import flag
from mebp.data.holding_out import SHARE
from mebp.training import state
from mebp.training.options import ADAPTERS, TrainingOptions
from mebp.words import counted

CHOSEN = "chosen"  # in a state
_NAMES = ("epochs", "steps", "val_split", "eval_every", "keep", "patience")
_PASSES = 3, 10
_ENOUGH, _MOST = 200, 3000  # steps
_PATIENCE = 3  # evaluations
_EVALUATIONS = 10  # of a run that does not come to the end of its data three times


def decide(options: TrainingOptions, steps_per_pass: int, measures: bool, holds_out: bool) -> TrainingOptions:
    """With what the run chooses, as if it had been given.

    measures: whether there is data to measure on. holds_out: whether that is a part of the data.
    """
    if not options.chooses_length:
        return options
    fewest, most = _PASSES
    passes = min(max(-(-_ENOUGH // steps_per_pass), fewest), most)
    is_long = passes * steps_per_pass > _MOST
    found: dict[str, object] = {"steps": _MOST} if is_long else {"epochs": passes}
    if measures:
        if holds_out:
            found["val_split"] = SHARE
        if is_long and steps_per_pass > _MOST // _EVALUATIONS:
            found["eval_every"] = _MOST // _EVALUATIONS
        if options.adapter_out or options.model_out:
            found["keep"] = "best"
        found["patience"] = _PATIENCE
    return replace(options, **{name: value for name, value in found.items() if getattr(options, name) is None})


def told(given: TrainingOptions, decided: TrainingOptions, steps_per_pass: int, held_out: str) -> list[str]:
    """The options that repeat what was chosen, and what they mean, in a line; no line where nothing was."""
    chosen = [name for name in _NAMES if getattr(decided, name) != getattr(given, name)]
    if not chosen:
        return []
    if decided.steps:
        seen = decided.steps / steps_per_pass
        meaning = f"{seen:.2g} passes over the data" if seen >= 1 else f"sees {100 * seen:.2g} % of the data"
        meaning += f"; --epochs 1 takes all of it, in {counted(steps_per_pass, 'step')}" if seen < 1 else ""
    else:
        meaning = f"passes over the data, {counted(decided.total_steps(steps_per_pass), 'step')}"
    if held_out:
        meaning += f"; {held_out} are held out to measure on"
    if "patience" in chosen:
        meaning += f"; ends sooner after {counted(decided.patience, 'evaluation')} without a lower loss"
    return [f"{as_written(decided, chosen)}: {meaning}"]


def as_written(options: TrainingOptions, names: list[str]) -> str:
    return " ".join(f"{flag(name)} {shlex.quote(str(getattr(options, name)))}" for name in names)


def stored(options: TrainingOptions) -> dict[str, object]:
    """For a state."""
    return {name: getattr(options, name) for name in _NAMES if getattr(options, name) is not None}


def as_begun(options: TrainingOptions) -> TrainingOptions:
    """With what a run that goes on has chosen, where it is not given now. Raises mebp.Error where its state has what no
    run chooses."""
    if not (options.resume and state.exists(options.state)):
        return options
    saved = state.saved_with(options.state)
    if not saved:  # which loading it refuses in its own words
        return options
    if CHOSEN not in saved:  # of a build that took one pass, and measured on no part of its data
        return replace(options, epochs=1) if options.chooses_length else options
    with state.restoring(options.state):
        begun = _checked(state.records(saved, CHOSEN))
    names = [*_NAMES] if options.chooses_length else ["val_split"]
    if options.eval is not None or not options.may_hold_out:
        names = [name for name in names if name != "val_split"]
    if options.eval is None and options.val_split is None and "val_split" not in begun:
        names = [name for name in names if name in ("epochs", "steps")]
    return replace(options, **{name: begun[name] for name in names if name in begun and getattr(options, name) is None})


def _checked(begun: dict) -> dict[str, object]:
    for name, value in begun.items():
        if name == "keep":
            valid = value in ADAPTERS
        elif name == "val_split":
            valid = type(value) is float and 0 < value < 1
        else:
            valid = name in _NAMES and type(value) is int and 0 < value < 1 << 53
        if not valid:
            raise ValueError(f"{name} is what no run chooses")
    return begun
