# SPDX-License-Identifier: Apache-2.0
"""What a run writes, now and when it ends hours later, must be writable when it begins, and nobody else's."""

from itertools import combinations
from pathlib import Path

from mebp.errors import Error
from mebp.files import make_writable_parent, read_json
from mebp.outputs import LOG, PICTURE, TRACE, check_no_input, check_output, is_same
from mebp.trained_model import is_trained_model
from mebp.training import state
from mebp.training.asking import asked_file
from mebp.training.keeping import CURVES, step_folders
from mebp.training.options import TrainingOptions

_PICTURES = (".png", ".svg", ".pdf", ".jpg")
_FILES = {"--log": LOG, "--plot": PICTURE, "--profile": TRACE}


def outputs_of(options: TrainingOptions) -> dict[str, Path]:
    """Files and folders that the run will write, by their options."""
    named = {"--adapter-out": options.adapter_out, "--model-out": options.model_out, "--state": options.state,
             "--log": options.log, "--plot": options.plot, "--profile": options.profile}  # fmt: skip
    return {option: path for option, path in named.items() if path is not None}


def check_outputs(options: TrainingOptions) -> None:
    """Makes the folders that adapter and picture go to.

    Raises mebp.Error where something could not be written, or would replace what this run has not made: the outputs of
    other runs unless `options` say so, and anything else in any case.
    """
    outputs = outputs_of(options)
    data = {" ".join(["--data", *map(str, [source.path] if len(options.data) > 1 else [])]): source.path
            for source in options.data}  # fmt: skip
    read = {**data, "--eval": options.eval, "--test": options.test, "--adapter": options.adapter}
    asked = {f"--ask {given}": asked_file(given) for given in map(str, options.ask or ())}
    inputs = {"the bundle": options.bundle, **read, **asked}
    for (one, path), (other, there) in combinations(outputs.items(), 2):
        if is_same(path, there):
            raise Error(f"{one} and {other} are both {path}; give each its own")
    if options.state:
        check_no_input("--state", options.state, inputs)
        _check_state(options)
    if options.adapter_out:
        check_no_input("--adapter-out", options.adapter_out, inputs)
        _check_adapter(options)
    if options.model_out:
        check_no_input("--model-out", options.model_out, inputs)
        _check_model(options)
    for option in ("--adapter-out", "--model-out"):
        for name, curve in CURVES.items() if option in outputs else ():
            check_output(option, outputs[option] / name, curve, inputs)
    for option, kind in _FILES.items():
        if option in outputs:
            older = check_output(option, outputs[option], kind, inputs)
            _check_own(options, f"{option} {outputs[option]}", older, kind.name)
    if options.plot:
        if options.plot.suffix not in _PICTURES:
            raise Error(f"--plot {options.plot}: is not a picture format; end the name in {', '.join(_PICTURES)}")
        _make_parent("--plot", options.plot)


def _check_own(options: TrainingOptions, what: str, older: bool, name: str) -> None:
    # A run that goes on has made what is there.
    if older and not (options.resume or options.overwrite):
        raise Error(f"{what}: exists already ({name}); add --overwrite to replace it or choose another")


def _check_state(options: TrainingOptions) -> None:
    folder = options.state
    if folder.exists() and not folder.is_dir():
        raise Error(f"--state {folder}: is no folder; choose another")
    if state.exists(folder) and not (options.resume or options.overwrite):
        raise Error(
            f"{folder}: holds the state of a run (after step {state.steps(folder)}); "
            "add --resume to go on or --overwrite to start over"
        )


def _check_adapter(options: TrainingOptions) -> None:
    folder = options.adapter_out
    what = f"--adapter-out {folder}"
    if folder.exists() and not folder.is_dir():
        raise Error(f"{what}: is no folder; choose another")
    config = folder / "adapter_config.json"
    if config.exists() and "peft_type" not in read_json(config, "choose another --adapter-out"):
        raise Error(f"{what}: exists and is not an adapter; choose another")
    older = config.exists() or (options.keep == "all" and bool(step_folders(folder)))
    _check_own(options, what, older, "an adapter")
    _make_parent("--adapter-out", folder)


def _check_model(options: TrainingOptions) -> None:
    folder = options.model_out
    what = f"--model-out {folder}"
    if folder.exists() and not folder.is_dir():
        raise Error(f"{what}: is no folder; choose another")
    older = is_trained_model(folder) or (options.keep == "all" and bool(step_folders(folder)))
    if folder.exists() and any(folder.iterdir()) and not older:
        raise Error(f"{what}: exists and is not a model of mebp train; choose another")
    _check_own(options, what, older, "a model")
    _make_parent("--model-out", folder)


def _make_parent(option: str, path: Path) -> None:
    make_writable_parent(path, "choose another", f"{option} {path}: {path.absolute().parent}")
