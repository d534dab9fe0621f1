# SPDX-License-Identifier: Apache-2.0
"""mebp.train in a notebook's kernel: its streams have no file descriptor, FORCE_COLOR is set, and the kernel lives on
after Ctrl-C."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import models
from support.commands import TIMEOUT
from support.textmodel import make_tokenizer

# As ipykernel has them. A cell is what `cell` runs; it ends with a KeyboardInterrupt or not, and has what was written.
_KERNEL = """
import builtins, faulthandler, io, json, os, signal, sys, threading, time
faulthandler.dump_traceback_later(90, exit=True)
class OutStream(io.TextIOBase):
    encoding = "UTF-8"
    def __init__(self): self.text, self.until = "", None
    def isatty(self): return False
    def fileno(self): raise io.UnsupportedOperation("fileno")
    def flush(self): pass
    def write(self, text):
        self.text += text
        if self.until and self.until in self.text:  # by then the line's own call has something to do
            self.until = None
            threading.Timer(0.3, self.press).start()
        return len(text)
    def press(self):
        self.pressed = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)
class ZMQInteractiveShell: pass
builtins.get_ipython = ZMQInteractiveShell
sys.stdout = sys.stderr = stream = OutStream()
import mebp
cells = []
def has_children():  # but for those that are killed, of which subprocess.run leaves the end to Python
    try:
        until = time.monotonic() + 5
        while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
            if time.monotonic() > until:
                return True
            time.sleep(0.01)
        return found.si_status != signal.SIGKILL
    except ChildProcessError:
        return False
def cell(run, until=None):
    stream.text, stream.until, stream.pressed = "", until, None
    raised = seconds = None
    try:
        run()
    except KeyboardInterrupt as error:
        raised, seconds = str(error), time.monotonic() - stream.pressed
    except mebp.Error as error:
        raised = f"Error: {error}"
    cells.append({"text": stream.text, "raised": raised, "seconds": seconds, "children": has_children()})
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
_END = "\nsys.__stdout__.write(json.dumps(cells))\n"


def run_cells(lines: str, *arguments: object, **settings: object) -> list[dict]:
    done = subprocess.run(
        [sys.executable, "-c", _KERNEL + lines + _END, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env={**os.environ, "FORCE_COLOR": "1", **{name: str(value) for name, value in settings.items()}},
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(done.stdout)


def check_ended(cell: dict) -> None:
    """At once, whatever would have taken hours or some seconds more; a machine with other work takes its time."""
    assert cell["raised"] is not None and cell["seconds"] < 5 and not cell["children"], cell


_STEPS = """
bundle, folder = sys.argv[1:]
samples = [{"prompt": f"{number}:", "completion": " lit"} for number in range(12)]
told = {"lr": 1e-2, "state": f"{folder}/state", "schedule": "constant"}
cell(lambda: mebp.train(bundle, samples, steps=10**6, **told), until="step 1/")
cell(lambda: mebp.train(bundle, samples, steps=10**6, resume=True, **told), until="continues after step")
cell(lambda: mebp.train(bundle, samples, steps=2, lr=1e-2, eval=samples))
words = " ".join(str(number) for number in range(10**6))
cell(lambda: mebp.train(bundle, [words], steps=2), until="making tokens of it")
cell(lambda: mebp.train(bundle, samples, steps=1, lr=1e-2))
"""


def test_a_run_is_seen_and_interrupted(bundle, tmp_path):
    cache = tmp_path / "cache"
    first, second, whole, tokens, last = run_cells(_STEPS, bundle, tmp_path, MEBP_CACHE=cache)
    for cell in (first, second):
        check_ended(cell)
        assert cell["raised"].startswith("stopped after step ")
        assert f"{cell['raised']} of 1000000; continue with --resume\n" in cell["text"]
    assert int(second["raised"].split()[-1]) > int(first["raised"].split()[-1])
    assert f"continues {first['raised'].removeprefix('stopped ')}, " in second["text"]
    assert whole["raised"] is None and "\x1b" not in whole["text"]
    lines = whole["text"].splitlines()
    assert [line.split("  ")[0] for line in lines if line.startswith("step ")] == ["step 1/2", "step 2/2", "step 2/2"]
    check_ended(tokens)
    assert tokens["text"].splitlines()[-1].startswith("data: making tokens of it")
    assert not [path for path in (cache / "tokens").rglob("*") if path.is_file()]
    assert last["raised"] is None and "step 1/1  loss" in last["text"]


_SLOW = """#!/bin/sh
[ "$1" != --check-options ] || exit 0
echo $$ > "$MEBP_CACHE/compiling"
exec sleep 600
"""

_BUILDING = """
from pathlib import Path
model, folder = sys.argv[1:]
samples = [{"text": "The lamp is lit half an hour before sunset."}]
def compiling():
    started = Path(folder) / "compiling"
    def press():
        while not (started.exists() and started.read_text().endswith("\\n")): time.sleep(0.01)
        stream.press()
    threading.Thread(target=press).start()
    mebp.compile("model.onnx", f"{folder}/a.mebp")
cell(lambda: mebp.train(model, samples, steps=1), until="loading torch and transformers")
cell(compiling)
cell(lambda: mebp.train(model, samples, steps=1), until="loading torch and transformers")
cell(lambda: mebp.train(model, [3], steps=1))
"""


@pytest.fixture
def slow_tools(tmp_path) -> Path:
    tool = tmp_path / "tools" / "mebpc"
    tool.parent.mkdir()
    tool.write_text(_SLOW)
    tool.chmod(0o755)
    return tool.parent


def test_what_was_started_ends(slow_tools, tmp_path):
    model, cache = models.save(models.build("llama", num_hidden_layers=1), tmp_path / "tiny"), tmp_path / "cache"
    make_tokenizer(model)
    cache.mkdir(mode=0o700)
    cells = run_cells(_BUILDING, model, cache, MEBP_CACHE=cache, MEBP_TOOLS=slow_tools)
    for cell in cells[:3]:
        check_ended(cell)
    for cell in (cells[0], cells[2]):  # a line that moves is for a terminal
        assert cell["text"].splitlines()[-1] == "loading torch and transformers" and "\x1b" not in cell["text"]
    assert cells[3]["raised"].startswith("Error: sample 1 of data is of type int; ")
    with pytest.raises(ProcessLookupError):
        os.kill(int((cache / "compiling").read_text()), 0)
    assert not list(cache.glob("*/.writing*")) and not list(cache.glob("exports/*"))
