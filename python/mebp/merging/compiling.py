# SPDX-License-Identifier: Apache-2.0
"""A model's folder or GGUF file, exported and compiled again as a user would, to be measured beside a bundle."""

from collections.abc import Callable, Sequence
from pathlib import Path

from mebp.errors import Error
from mebp.tasks import CAUSAL
from mebp.tools import python_module, run_tool

Stage = Callable[[str], object]


def silent(line: str) -> None:
    """A Stage that says nothing."""


def export_like(description: dict, model: Path, scratch: Path, tokens: Sequence[str] = ()) -> Path:
    """Exports `model`, for a bundle's lengths and task, with these new tokens; the ONNX file, in `scratch`."""
    of, file = description["model"], scratch / "model.onnx"
    options = ["--seq-len", str(of["sequence"]), "--batch", str(of["batch"])]
    if of["task"] != CAUSAL:
        options += ["--task", of["task"]]
    if of["classes"]:
        options += ["--classes", ",".join(of["classes"])]
    if tokens:
        options += ["--train-tokens", ",".join(tokens)]
    try:  # a process of its own: torch takes hundreds of MB
        run_tool(python_module("mebp", "export", str(model), "-o", str(file), *options))
    except Error as error:
        raise Error(str(error).removeprefix("mebp: ")) from None
    return file
