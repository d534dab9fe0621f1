# SPDX-License-Identifier: Apache-2.0
"""Rewards that are commands: JSON lines in, JSON lines out."""

import json
import math
import shlex
import shutil
from collections.abc import Callable, Sequence

from mebp.errors import Error, translate_errors
from mebp.numbers import as_float
from mebp.rewards.processes import converse
from mebp.rewards.sampled import Given, Progress, Sampled, shown

TIMEOUT = 300.0  # seconds for one call


class CommandReward:
    """A command that is run once for all completions of a step, without a shell.

    It reads a line for each completion, {"prompt", "completion", "completion_ids", "completion_thought",
    "completion_answer", and the data's columns}, to the end, and writes a line for each: a number, null, or {"reward":
    a number or null, and whatever else it measured}.
    """

    def __init__(self, command: str, timeout: float = TIMEOUT, stop: Callable[[], bool] = lambda: False) -> None:
        """timeout: seconds that a call may take, 0 for no limit; stop: a call raises StoppedError when it is true."""
        self.name, self._timeout, self._stop = command, timeout, stop
        with translate_errors(f"reward {command}: cannot be read", "write it as in a shell", ValueError):
            self._words = shlex.split(command)
        if not self._words or shutil.which(self._words[0]) is None:
            raise Error(f"reward {command}: is neither MODULE:FUNCTION nor a command that can be run; check it")

    def __call__(self, batch: Sequence[Sampled], progress: Progress) -> Given:
        lines = [
            json.dumps(
                {
                    **one.prompt.columns,
                    "prompt": one.prompt.written,
                    "completion": one.completion,
                    "completion_ids": [int(each) for each in one.ids],
                    "completion_thought": one.thought,
                    "completion_answer": one.answer,
                }
            )
            for one in batch
        ]
        given = "".join(f"{line}\n" for line in lines).encode()
        try:
            with translate_errors("cannot be run", "check the command"):
                done = converse(self._words, given, self._timeout, self._stop)
        except Error as error:
            raise Error(f"reward {self.name}: {error}") from error
        if done.status:
            said = done.complaint.decode(errors="replace").strip().splitlines()[-1:] or ["without a word"]
            raise Error(f"reward {self.name}: ends with status {done.status} ({said[0]:.200}); try it by itself")
        return self._read(done.written.decode(errors="replace"), batch)

    def _read(self, written: str, batch: Sequence[Sampled]) -> Given:
        given = Given([])
        for index, line in enumerate(each for each in written.split("\n") if each.strip()):
            where = batch[index].where if index < len(batch) else f"line {index + 1}"
            given.rewards.append(self._reward(line, where, given.metrics))
        return given

    def _reward(self, line: str, where: str, metrics: dict[str, list[float]]) -> object:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Error(f"reward {self.name}: writes {shown(line)} for {where}, which is not JSON") from error
        if not isinstance(value, dict):
            return value
        if "reward" not in value:
            raise Error(f'reward {self.name}: writes no "reward" for {where}; write a number, or {{"reward": number}}')
        for name, other in value.items():
            number = as_float(other) if isinstance(other, int | float) else None
            if name != "reward" and number is not None and math.isfinite(number):
                metrics.setdefault(name, []).append(number)
        return value["reward"]
