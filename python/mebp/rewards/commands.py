# SPDX-License-Identifier: Apache-2.0
"""Rewards that are commands: JSON lines in, JSON lines out."""

import json
import shlex
import shutil
import subprocess
from collections.abc import Sequence

from mebp.errors import Error, translate_errors
from mebp.rewards.sampled import Given, Progress, Sampled


class CommandReward:
    """A command that is run once for all completions of a step.

    It reads a line for each completion, {"prompt", "completion", "completion_ids", and the data's columns}, to the end,
    and writes a line for each: a number, null, or {"reward": a number or null, and whatever else it measured}.
    """

    def __init__(self, command: str) -> None:
        self.name = command
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
                }
            )
            for one in batch
        ]
        with translate_errors(f"reward {self.name}: cannot be run", "check the command"):
            done = subprocess.run(
                self._words,
                input="".join(f"{line}\n" for line in lines),
                capture_output=True,
                check=False,
                encoding="utf-8",
                errors="replace",
            )
        if done.returncode:
            said = done.stderr.strip().splitlines()[-1:] or ["without a word"]
            raise Error(f"reward {self.name}: ends with status {done.returncode} ({said[0]:.200}); try it by itself")
        written = [line for line in done.stdout.split("\n") if line.strip()]
        given = Given([])
        for index, line in enumerate(written):
            where = batch[index].where if index < len(batch) else f"line {index + 1}"
            given.rewards.append(self._reward(line, where, given.metrics))
        return given

    def _reward(self, line: str, where: str, metrics: dict[str, list[float]]) -> object:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Error(f"reward {self.name}: writes {line!r:.60} for {where}, which is not JSON") from error
        if not isinstance(value, dict):
            return value
        if "reward" not in value:
            raise Error(f'reward {self.name}: writes no "reward" for {where}; write a number, or {{"reward": number}}')
        for name, other in value.items():
            if name != "reward" and isinstance(other, int | float):
                metrics.setdefault(name, []).append(float(other))
        return value["reward"]
