# SPDX-License-Identifier: Apache-2.0
"""One option is one thing: what it is called, what it does and its default do not depend on the command."""

import argparse
import re
import subprocess
from dataclasses import fields

import mebp
from mebp.cli.main import make_parsers
from mebp.compile_options import CompileOptions, flag
from mebp.extension import load_runtime
from mebp.objective_traits import objectives
from mebp.shared_options import shared_options
from mebp.split import RETRY_SECONDS
from mebp.tools import find_tool
from mebp.training.options import TrainingOptions

# Of two of mebp train, mebpc and mebp-run, and yet no option of format/options.h.
MEAN_MORE_THAN_ONE_THING = {
    "accumulate": "mebp train counts batches, mebpc is told that there will be several",
    "adapter": "a folder to go on from, or mebpc's kind of adapter",
    "batch": "mebpc says that it takes that of the export",
    "clip": "a norm, or mebpc is told that there will be one",
    "data": "mebp-run reads JSON lines alone, mebp train many forms of files",
    "device": "mebpc plans for it",
    "generate-len": "the default is mebp train's own",
    "loss-on": "mebp-run takes it for conversations alone",
    "memory-budget": "mebp train has auto, too",
    "momentum": "mebpc plans for it",
    "objective": "mebpc plans for it",
    "packing": "a row has several samples, or mebpc is told that it may",
    "plan-only": "of a run, or of mebpc's bundle",
    "optimizer": "mebpc plans for it; each command lists those that it has",
    "overwrite": "of what the command writes",
    "seed": "of the order of the data, or of mebpc's adapters",
    "seq-len": "the default is mebp train's own",
    "spill": "mebp-run's is a folder",
    "steps": "the defaults differ",
    "threads": "mebpc plans for them",
}
# Their --cert, --key, --threads and --device are not of what computes here for the user.
MEAN_ANOTHER_MACHINE = {"serve", "calibrate"}


def help_of(tool: str) -> dict[str, str]:
    """By option; a line of help goes on where the next option does not begin."""
    text = subprocess.run([find_tool(tool), "--help"], capture_output=True, text=True, check=True).stdout
    entries = re.split(r"\n  (?=-)", text)[1:]
    named = {}
    for entry in entries:
        match = re.match(r"(?:-\w,)?--([\w-]+)(.*)", entry.split("\n\n")[0], re.DOTALL)
        if match:
            named[match[1]] = " ".join(match[2].split())
    return named


def helps_of(command: str) -> dict[str, str]:
    actions: list[argparse.Action] = make_parsers()[command]._actions
    return {name[2:]: action.help for action in actions for name in action.option_strings if name.startswith("--")}


def test_a_shared_option_says_the_same_everywhere():
    everywhere = {"mebpc": help_of("mebpc"), "mebp-run": help_of("mebp-run")}
    everywhere |= {command: helps_of(command) for command in make_parsers().keys() - MEAN_ANOTHER_MACHINE}
    for name, option in shared_options().items():
        said = option.help.split(" (default:")[0]
        having = {command for command, helps in everywhere.items() if name in helps}
        saying = {command for command in having if said in everywhere[command][name]}
        assert len(saying) > 1, f"--{name} is in format/options.h, but {saying} alone has it"
        assert saying == having or name in MEAN_MORE_THAN_ONE_THING, f"--{name} in {having - saying}"


def test_other_options_of_the_same_name_are_known_to_differ():
    everywhere = [help_of("mebpc").keys(), help_of("mebp-run").keys(), helps_of("train").keys()]
    twice = {name for helps in everywhere for name in helps if sum(name in other for other in everywhere) > 1}
    differing = {name for name in twice - {"help", "version"} if name not in shared_options()}
    assert differing <= MEAN_MORE_THAN_ONE_THING.keys()
    assert MEAN_MORE_THAN_ONE_THING.keys() <= twice


def test_mebpc_knows_what_is_passed_on_and_has_these_defaults():
    of_mebpc = help_of("mebpc")
    for name, value in CompileOptions.named_by_mebpc({each.name: None for each in fields(CompileOptions)}).items():
        assert flag(name)[2:] in of_mebpc, value
    for name, option in shared_options().items():
        if option.default and name in of_mebpc and name not in MEAN_MORE_THAN_ONE_THING:
            assert re.search(rf"=\[?{re.escape(option.default)}\]? ", of_mebpc[name]), name


def test_a_run_has_these_defaults():
    defaults = {each.name: each.default for each in fields(TrainingOptions)}
    defaults["retry_for"] = RETRY_SECONDS
    stated = {name.replace("-", "_"): option.default for name, option in shared_options().items() if option.default}
    own = {name: default for name, default in defaults.items() if name in stated and default is not None}
    assert own.keys() >= {"lr", "weight_decay", "save_every", "device", "retry_for"}
    for name, default in own.items():
        assert type(default)(stated[name]) == default, name


def test_docstrings_name_all_optimizers_and_objectives():
    names = [name for name, _ in load_runtime().optimizers()]
    for doc in (mebp.Session.__init__.__doc__, mebp.compile.__doc__):
        assert [name for name in names if not re.search(rf"\b{name}\b", doc)] == []
    for doc in (mebp.train.__doc__, mebp.compile.__doc__):
        assert [name for name in objectives() if f'"{name}"' not in doc] == []
