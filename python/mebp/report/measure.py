# SPDX-License-Identifier: Apache-2.0
"""What a training process needed, to stand beside what was planned."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.errors import Error
from mebp.tools import find_tool, run_tool
from mebp.training.log import Record, read_log


@dataclass(frozen=True)
class Measurement:
    """A peak, in bytes, as the operating system counts it."""

    name: str
    peak_bytes: int
    meaning: str
    is_runtime_alone: bool  # what the plan is of


def measure_step(bundle: Path, description: dict) -> Measurement:
    """Runs mebp-run, a process of its own, for one step of the largest batch and sequence on random tokens.

    Raises mebp.Error with mebp-run's line where it fails.
    """
    model, plan = description["model"], description["plan"]
    shape = (model["batch"], model["sequence"])
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder, "tokens.npy")
        np.save(tokens, np.random.default_rng(0).integers(0, model["vocabulary"], shape, dtype=np.int32))
        command = [find_tool("mebp-run"), str(bundle), "--tokens", str(tokens), "--steps", "1", "--json"]
        command += ["--threads", str(plan["threads"])]
        try:
            printed = run_tool(command)
        except Error as error:
            raise Error(f"--measure: {error}") from None
    peak = json.loads(printed.splitlines()[-1])["peak_bytes"]
    return Measurement("mebp-run", peak, "one step of the runtime alone, at full length", True)


def read_run(log: Path) -> Measurement:
    """The highest peak in the log of a run. Raises mebp.Error where the file is none, or has no step."""
    records = [entry for entry in read_log(log) if isinstance(entry, Record)]
    if not records:
        raise Error(f"--log {log}: has no steps yet; give the log of a run that has begun")
    steps = f"{len(records):,} steps" if len(records) > 1 else "one step"
    meaning = f"{steps} in Python, with the tokenizer and the data, which the plan does not count"
    return Measurement("mebp train", max(record.peak_bytes for record in records), meaning, False)
