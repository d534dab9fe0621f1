# SPDX-License-Identifier: Apache-2.0
"""Rewards that are Python functions with TRL's signature."""

import asyncio
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from mebp.errors import Error, reason
from mebp.rewards.sampled import Given, Progress, Sampled, shown

_OWN = (
    *("prompts", "completions", "completion_ids", "completion_thoughts", "completion_answers"),
    *("trainer_state", "log_extra", "log_metric"),
)


class FunctionReward:
    """f(prompts, completions, completion_ids, **columns) -> a number or None for each completion.

    It is given `completion_thoughts` (None where a completion does not think) and `completion_answers`,
    `trainer_state`, `log_extra` and `log_metric`, too, and of all that only what it has parameters for.
    """

    def __init__(self, function: Callable, name: str, folder: str) -> None:
        """folder: where it may import from, beside the usual places."""
        self._function, self.name, self._folder = function, name, folder
        self._metrics: dict[str, list[float]] = {}

    def __call__(self, batch: Sequence[Sampled], progress: Progress) -> Given:
        self._metrics = {}
        try:
            rewards = self._call(batch, progress)
        except Exception as error:  # whatever a user's function raises
            where = self._first_that_raises(batch, progress)
            raise Error(f"reward {self.name}: raises {type(error).__name__} for {where} ({reason(error)})") from error
        try:
            return Given(list(rewards), self._metrics)
        except TypeError as error:
            raise Error(f"reward {self.name}: gives {shown(rewards)}; give a list with a number for each") from error

    def _call(self, batch: Sequence[Sampled], progress: Progress) -> object:
        arguments = {
            **{name: [one.prompt.columns[name] for one in batch] for name in batch[0].prompt.columns},
            "prompts": [one.prompt.written for one in batch],
            "completions": [one.completion for one in batch],
            "completion_ids": [[int(token) for token in one.ids] for one in batch],
            "completion_thoughts": [one.thought for one in batch],
            "completion_answers": [one.answer for one in batch],
            "trainer_state": progress,
            "log_extra": lambda column, values: None,  # for a table of completions, which mebp does not write
            "log_metric": lambda name, value: self._metrics.setdefault(name, []).append(float(value)),
        }
        parameters = inspect.signature(self._function).parameters.values()
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            arguments = {each.name: arguments[each.name] for each in parameters if each.name in arguments}
        with _importable(self._folder):
            rewards = self._function(**arguments)
            return asyncio.run(rewards) if inspect.iscoroutine(rewards) else rewards

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raises mebp.Error where the function needs a column that the data does not have."""
        for parameter in inspect.signature(self._function).parameters.values():
            is_needed = parameter.default is parameter.empty and parameter.kind not in (
                parameter.VAR_KEYWORD,
                parameter.VAR_POSITIONAL,
            )
            if is_needed and parameter.name not in (*_OWN, *columns):
                there = f"has {', '.join(columns)}" if columns else "has none"
                raise Error(
                    f'reward {self.name}: needs a column "{parameter.name}", and the data {there}; '
                    "add it, or give the parameter a default"
                )

    def _first_that_raises(self, batch: Sequence[Sampled], progress: Progress) -> str:
        for one in batch:
            try:
                self._call([one], progress)
            except Exception:
                return one.where
        return f"the {len(batch):,} completions from {batch[0].prompt.where} on, though for none alone"


def load_function(module_name: str, function_name: str) -> FunctionReward:
    """The function of a module, or of a file that ends in .py. Modules are also looked for in the current folder, and
    what a file imports also beside it, both after all other places."""
    written = f"{module_name}:{function_name}"
    is_file = module_name.endswith(".py")
    folder = str(Path(module_name).resolve().parent) if is_file else os.getcwd()
    try:
        with _importable(folder):
            module = _load_file(Path(module_name)) if is_file else importlib.import_module(module_name)
    except Exception as error:  # whatever a user's module raises
        raise Error(f"reward {written}: cannot be loaded ({reason(error)}); check module and path") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        have = "is no function" if hasattr(module, function_name) else "is not there"
        raise Error(f"reward {written}: {function_name} {have}; name a function of {module_name}")
    return FunctionReward(function, function_name, folder)


@contextmanager
def _importable(folder: str) -> Iterator[None]:
    """Only while the user's own code runs: libraries look for modules that need not be there, and whatever is called
    so in the folder would run."""
    sys.path.append(folder)
    try:
        yield
    finally:
        for index in reversed(range(len(sys.path))):
            if sys.path[index] == folder:
                del sys.path[index]
                break


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError("no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
