# SPDX-License-Identifier: Apache-2.0
"""An argument of Python's interface that is wrong is named by an mebp.Error, before anything is done."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import mebp
import mebp.torch
import mebp.trl
from mebp import split
from mebp.tokenizer import Tokenizer

FUNCTIONS = {name: getattr(mebp, name) for name in mebp.__all__ if name not in ("Error", "StepResult", "devices")}
FUNCTIONS |= {"torch.logprobs": mebp.torch.logprobs, "trl.rollout": mebp.trl.rollout, "Tokenizer": Tokenizer}
FUNCTIONS |= {"split.connect": split.connect, "split.Server": split.Server}
METHODS = ["set_learning_rate", "save_adapter", "load_adapter", "save_model", "save_state", "load_state", "pause"]
METHODS += ["check_space", "settle"]
SESSION = mebp.Session.__new__(mebp.Session)  # no wrong argument comes as far as needing a bundle
FUNCTIONS |= {f"Session.{name}": getattr(SESSION, name) for name in METHODS}


class Odd:
    def __repr__(self) -> str:
        return "<odd>"


# Arrays, of which mebp.arrays says more, and what torch knows.
UNREAD = [("torch.logprobs", "input_ids"), ("torch.logprobs", "mask"), ("export", "model")]
PARAMETERS = [
    (name, parameter.name)
    for name, function in FUNCTIONS.items()
    for parameter in inspect.signature(function).parameters.values()
    if parameter.kind is not parameter.VAR_KEYWORD and (name, parameter.name) not in UNREAD
]


def others(name: str, but: str) -> dict[str, object]:
    """Arguments that are needed beside the one that is tried."""
    needed = {"model": "m", "path": "a.onnx", "output": "out", "bundle": "b", "data": "d", "adapter": "a", "to": "mlx"}
    needed |= {"session": SESSION, "input_ids": [[1]], "server": "127.0.0.1:1", "folder": "f", "lr": 1e-3}
    signature = inspect.signature(FUNCTIONS[name]).parameters
    given = {key: needed[key] for key, each in signature.items() if each.default is each.empty and key in needed}
    given.pop(but, None)
    return given


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_what_is_nothing_that_is_known(name, parameter):
    with pytest.raises(mebp.Error) as refused:
        FUNCTIONS[name](**others(name, parameter), **{parameter: Odd()})
    line = str(refused.value)
    assert line.startswith((f"{parameter} is <odd>; give ", "<odd>: ")), line


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_none_where_it_means_nothing(name, parameter):
    if inspect.signature(FUNCTIONS[name]).parameters[parameter].default is None:
        return
    if "None" in str(inspect.signature(FUNCTIONS[name]).parameters[parameter].annotation):
        return
    with pytest.raises(mebp.Error) as refused:
        FUNCTIONS[name](**others(name, parameter), **{parameter: None})
    assert str(refused.value).startswith((f"{parameter} is None; give ", "None"))


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: mebp.compile(None, "b"), "model is None; give a string or a path"),
        (lambda: mebp.compile("a", "b", seq_len="long"), "seq_len is 'long'; give a whole number or None"),
        (lambda: mebp.compile("a", "b", packing="yes"), "packing is 'yes'; give True or False"),
        (lambda: mebp.compile("a", "b", lora=8), "lora is 8; give LoRA or None"),
        (lambda: mebp.compile("a", "b", weights_for={1: ""}), "weights_for is {1: ''}; give a dict of strings or None"),
        (lambda: mebp.LoRA(rank=None), "rank is None; give a whole number"),
        (lambda: mebp.LoRA(targets=[1]), "targets is [1]; give a string or a list of strings"),
        (lambda: mebp.PrivateLoRA(share_a=1), "share_a is 1; give True or False"),
        (lambda: mebp.Session("b", lr="1e-4"), "lr is '1e-4'; give a number"),
        (lambda: mebp.Session("b", threads=True), "threads is True; give a whole number or None"),
        (lambda: mebp.Session("b", stream=3), "stream is 3; give Stream or None"),
        (lambda: mebp.merge(b"b", "a", "o"), "bundle is b'b'; give a string or a path"),
        (lambda: mebp.merge("b\0", "a", "o"), "bundle is 'b\\x00', which has a character NUL; leave it out"),
        (lambda: mebp.train("b", "d", callback="f"), "callback is 'f'; give a function or None"),
        (lambda: mebp.train("b", "d", log="a\0"), "'a\\x00': has a character NUL; leave it out"),
        (lambda: mebp.compile("a"), "compile needs output; give it, too"),
        (lambda: mebp.merge(), "merge needs bundle, adapter and output; give them, too"),
        (lambda: mebp.Session("b", learning_rate=1), "Session has no argument 'learning_rate'; did you mean lr?"),
        (lambda: mebp.export("m", "a", max_length=1), "export has no argument 'max_length'; did you mean seq_len?"),
        (lambda: mebp.verify("b", xyzzyx=1), "verify has no argument 'xyzzyx'; there are bundle, reference, adapter, "
                                             "seq_len, device, threads"),
        (lambda: mebp.verify("b", "r", "a"), "verify takes bundle and reference without their names; give what follows "
                                             "by its name"),
        (lambda: mebp.merge("b", "a", "o", bundle="c"), "merge is given bundle twice; give it once"),
        (lambda: split.Server("b", max_sessions=-1), "max_sessions is -1; give a whole number of at least 0"),
    ],
)  # fmt: skip
def test_lines(call, line):
    with pytest.raises(mebp.Error) as refused:
        call()
    assert str(refused.value) == line


def test_numbers_of_numpy_are_numbers(tmp_path):
    with pytest.raises(mebp.Error, match="no such file|cannot|not found|missing"):
        mebp.compile(tmp_path / "none.onnx", tmp_path / "b", seq_len=np.int64(8), memory_budget=np.int64(10**8))
    assert mebp.LoRA(rank=np.int32(4), alpha=np.float32(8)).rank == 4


def test_what_is_read_of_a_function_stays():
    assert str(inspect.signature(mebp.merge)).startswith("(bundle: str | os.PathLike[str], adapter: ")
    assert mebp.merge.__doc__ and mebp.merge.__module__ == "mebp.merging"
    assert not Path("out").exists()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_type_checkers_read_every_argument(name):
    signature = inspect.signature(FUNCTIONS[name])
    assert all(each.annotation is not each.empty for each in signature.parameters.values())
    assert isinstance(FUNCTIONS[name], type) or signature.return_annotation is not signature.empty


def test_type_checkers_read_every_name():
    tree = ast.parse(Path(mebp.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    homes = {alias.name: node.module.removeprefix("mebp.") for node in block.body for alias in node.names}
    assert homes == mebp._HOMES and set(mebp.__all__) >= homes.keys() - {"__version__"}
    assert (Path(mebp.__file__).parent / "py.typed").is_file()


def test_no_module_hides_what_is_public():
    folder = Path(mebp.__file__).parent
    named = {each.stem for each in folder.iterdir() if each.suffix == ".py" or (each / "__init__.py").is_file()}
    assert not named & {*mebp.__all__}
