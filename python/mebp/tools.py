# SPDX-License-Identifier: Apache-2.0
"""Where the compiled tools are, how an installed package runs them, and where they cache."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from mebp.errors import Error

_PACKAGED = Path(__file__).resolve().parent / "bin"


def find_tool(name: str) -> str:
    """The path of `mebpc` or `mebp-run`: in the folder MEBP_TOOLS, in the package, beside this interpreter, in the
    checkout's build, on PATH. A relative folder would be of whatever the current folder is, so it does not count."""
    named = [os.environ["MEBP_TOOLS"]] if "MEBP_TOOLS" in os.environ else []
    if named and not os.path.isabs(named[0]):
        raise Error(f"MEBP_TOOLS is '{named[0]}'; give the absolute path of the folder with {name}")
    checkout = _PACKAGED.parents[2]
    on_path = [folder for folder in os.get_exec_path() if os.path.isabs(folder)]
    for folder in [*named, _PACKAGED, Path(sys.executable).parent, checkout / "build" / "bin", *on_path]:
        found = shutil.which(name, path=str(folder))
        if found:
            return found
    raise Error(f"{name} was not found beside this Python or on PATH; build it with make")


def python_module(name: str, *arguments: str) -> list[str]:
    """The command that runs this Python's module `name` in a process of its own.

    -P: Python would otherwise import from the current folder first, where a stranger's file may have any module's name.
    """
    return [sys.executable, "-P", "-m", name, *arguments]


def last_line(errors: str, command: Sequence[str], status: int) -> str:
    """Why a command failed: the last line that it wrote on standard error, or else its status."""
    lines = errors.strip().splitlines()
    return lines[-1] if lines else f"{Path(command[0]).name} ended with status {status}"


def run_tool(command: Sequence[str]) -> str:
    """What a command prints. Raises Error with its last line of errors where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Error(last_line(done.stderr, command, done.returncode))
    return done.stdout


def watch_tool(command: Sequence[str], each_line: Callable[[str], None]) -> list[str]:
    """As run_tool, with each line of output as it comes; returns what the command wrote on standard error."""
    with tempfile.TemporaryFile("w+") as errors:
        with _started(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            for line in process.stdout:
                each_line(line.rstrip("\n"))
        errors.seek(0)
        written = errors.read()
    if process.returncode != 0:
        raise Error(last_line(written, command, process.returncode))
    return written.strip().splitlines()


@contextmanager
def _started(command: Sequence[str], **streams: Any) -> Iterator[subprocess.Popen]:
    """A process that does not outlive the body, whatever ends that. A signal that comes while the process starts waits
    until it can be ended: inside Popen an exception would leave it behind."""
    came: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if is_main else ()
    handlers = {number: signal.getsignal(number) for number in numbers}
    held = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in held:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        process = subprocess.Popen(command, **streams)
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
    try:
        for number in came:
            signal.raise_signal(number)
        yield process
        process.wait()
    finally:
        process.kill()  # where it has not ended
        process.wait()  # not Popen's own end, which waits a quarter of a second for what Ctrl-C ends
        process.stdout.close()


def cache_folder() -> Path:
    """Where things are kept that can be made again: $MEBP_CACHE, or ~/.cache/mebp. mebpc looks there, too."""
    return Path(os.environ.get("MEBP_CACHE") or Path.home() / ".cache" / "mebp")


def run_mebpc() -> NoReturn:
    """The command `mebpc` of an installed package."""
    _become("mebpc")


def run_mebp_run() -> NoReturn:
    """The command `mebp-run` of an installed package."""
    _become("mebp-run")


def _become(name: str) -> NoReturn:
    # Nothing but the package's own: what is beside the interpreter is this command itself.
    os.execv(_PACKAGED / name, [name, *sys.argv[1:]])
