# SPDX-License-Identifier: Apache-2.0
"""Measures steps on a phone over adb, or here, and prints one line to send back.

    .venv/bin/python bench/measure_phone.py NAME.mebp --runner build/mebp-run-for-arm64 [--serial ID] [--minutes 10]
    .venv/bin/python bench/measure_phone.py NAME.mebp --here [--minutes 1]

`--runner` is a mebp-run that was built for the phone; docs/porting.md has how. Bundle and runner are copied to
/data/local/tmp/mebp, and removed at the end. The line has the device, the shape, seconds a step cool and warm (the
medians of the first and of the last five steps), and the peak.
"""

import argparse
import json
import platform
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

import mebp
from mebp.tools import find_tool

ON_PHONE = "/data/local/tmp/mebp"
AT_ENDS = 5  # steps that count as cool, and as warm


class Here:
    """This machine."""

    def __init__(self, bundle: Path):
        self.bundle = bundle

    def device(self) -> str:
        return f"{platform.node()} ({platform.machine()})"

    def train(self, tokens: Path, steps: int) -> str:
        return _run([find_tool("mebp-run"), str(self.bundle), "--tokens", str(tokens), *_options(steps)])

    def close(self) -> None:
        pass


class OverAdb:
    """A phone that adb reaches."""

    def __init__(self, bundle: Path, runner: Path, serial: str | None):
        self._adb = ["adb", *(["-s", serial] if serial else [])]
        self._shell("mkdir", "-p", ON_PHONE)
        _run([*self._adb, "push", str(runner), f"{ON_PHONE}/mebp-run"])
        _run([*self._adb, "push", str(bundle), f"{ON_PHONE}/model.mebp"])
        self._shell("chmod", "700", f"{ON_PHONE}/mebp-run")

    def device(self) -> str:
        made, model = (self._shell("getprop", f"ro.product.{what}").strip() for what in ("manufacturer", "model"))
        return f"{made} {model}, Android {self._shell('getprop', 'ro.build.version.release').strip()}"

    def train(self, tokens: Path, steps: int) -> str:
        there = f"{ON_PHONE}/{tokens.name}"
        _run([*self._adb, "push", str(tokens), there])
        return self._shell(f"{ON_PHONE}/mebp-run", f"{ON_PHONE}/model.mebp", "--tokens", there, *_options(steps))

    def close(self) -> None:
        self._shell("rm", "-rf", ON_PHONE)

    def _shell(self, *words: str) -> str:
        return _run([*self._adb, "shell", shlex.join(words)])


def _options(steps: int) -> list[str]:
    return ["--steps", str(steps), "--json"]


def _run(command: list[str]) -> str:
    """Raises RuntimeError with the last line of what a command that fails has said."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RuntimeError(f"{command[0]} is not there; install it, or measure this machine with --here") from None
    if run.returncode:
        said = (run.stderr or run.stdout).strip().splitlines()
        raise RuntimeError(said[-1] if said else f"{command[0]} ended with status {run.returncode}")
    return run.stdout


def measure(machine: Here | OverAdb, tokens: Path, minutes: float) -> dict:
    """Two steps say how many fill the minutes."""
    second = json.loads(machine.train(tokens, 2).splitlines()[1])["seconds"]
    steps = max(2 * AT_ENDS, round(60 * minutes / second))
    *lines, end = map(json.loads, machine.train(tokens, steps).splitlines())
    seconds = [line["seconds"] for line in lines]
    return {
        "steps": steps,
        "cool_seconds": round(median(seconds[:AT_ENDS]), 4),
        "warm_seconds": round(median(seconds[-AT_ENDS:]), 4),
        "peak_bytes": end["peak_bytes"],
        "kernels": end["kernels"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--here", action="store_true")
    where.add_argument("--runner", type=Path)
    parser.add_argument("--serial")
    parser.add_argument("--minutes", type=float, default=10)
    arguments = parser.parse_args()
    try:
        session = mebp.Session(arguments.bundle, forward_only=True)
        shape = {"model": arguments.bundle.stem, "batch": session.max_batch, "sequence": session.max_sequence}
        with tempfile.TemporaryDirectory() as made:
            tokens = Path(made) / "tokens.npy"
            rows = np.random.default_rng(0).integers(0, session.vocabulary, (64, session.max_sequence), dtype=np.int32)
            np.save(tokens, rows)
            if arguments.here:
                machine = Here(arguments.bundle)
            else:
                machine = OverAdb(arguments.bundle, arguments.runner, arguments.serial)
            try:
                found = {"device": machine.device(), **shape, **measure(machine, tokens, arguments.minutes)}
            finally:
                machine.close()
    except (mebp.Error, RuntimeError) as error:
        print(f"measure_phone.py: {error}", file=sys.stderr)
        sys.exit(2)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
