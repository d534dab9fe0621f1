# SPDX-License-Identifier: Apache-2.0
"""The `ollama` command: makes a model of a Modelfile, and asks it."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from mebp.errors import Error
from mebp.serving import OLDEST
from mebp.tools import last_line

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*){0,2}(:[A-Za-z0-9][\w.-]*)?", re.ASCII)
_VERSION = re.compile(r"version is v?(\d+)\.(\d+)\.(\d+)\S*")
_OUTPUT = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # what draws a spinner


class Ollama:
    """The command on PATH, of a version that serves what is made here, with its server running."""

    def __init__(self) -> None:
        """Raises mebp.Error where there is no such command, it is too old, or its server does not run."""
        found = shutil.which("ollama")
        if found is None:
            raise Error("ollama is not on PATH; install it, or write the files for it with mebp merge -o NAME.gguf")
        self._command = found
        said = self._run("--version").stdout
        versions = [tuple(map(int, each)) for each in _VERSION.findall(said)]
        if "could not connect" in said:
            raise Error("ollama's server does not run; start it with ollama serve")
        if not versions:
            raise Error(f"{found}: does not say its version; mebp needs Ollama {OLDEST} or later")
        if (oldest := min(versions)) < tuple(map(int, OLDEST.split("."))):
            raise Error(f"{found}: is Ollama {'.'.join(map(str, oldest))}, and mebp needs {OLDEST} or later; update it")

    def check_free(self, name: str) -> None:
        """Raises mebp.Error where `name` cannot be a model's, or is one's."""
        if not _NAME.fullmatch(name):
            raise Error(f"--name {name}: is not a name for Ollama; use letters, digits and '-', as in my-model:v1")
        if self.has(name):
            raise Error(f"--name {name}: Ollama has a model of this name; choose another, or remove it with ollama rm")

    def has(self, name: str) -> bool:
        """Whether there is a model of this name. Raises mebp.Error where Ollama cannot say."""
        done = self._run("show", name)
        if done.returncode != 0 and "not found" not in done.stderr:
            raise Error(f"ollama show {name}: {self._reason(done)}")
        return done.returncode == 0

    def create(self, name: str, modelfile: Path) -> None:
        """Makes the model, which has to be a new one. Raises mebp.Error where Ollama does not; nothing of it is left
        then, nor after Ctrl-C."""
        self.check_free(name)  # merging has taken minutes
        try:
            done = self._run("create", name, "-f", str(modelfile))
            if done.returncode != 0:
                raise Error(f"ollama create {name}: {self._reason(done)}")
        except BaseException:
            self._run("rm", name)  # the server may have gone on
            raise

    def ask(self, name: str, question: str, thinks: bool = True) -> str:
        """The model's answer; `thinks`: with a thought before it, where the model has them. Raises mebp.Error where
        Ollama has none."""
        done = self._run("run", name, *([] if thinks else ["--think=false"]), "--", question)
        if done.returncode != 0:
            raise Error(f"ollama run {name}: {self._reason(done)}")
        return done.stdout.strip()

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self._command, *arguments]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", check=False
        )

    def _reason(self, done: subprocess.CompletedProcess[str]) -> str:
        command: Sequence[str] = done.args
        return last_line(_OUTPUT.sub("", done.stderr).replace("\r", "\n"), command, done.returncode)
