# SPDX-License-Identifier: Apache-2.0
"""The process that renders chat templates starts, ends and is asked as it should be."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mebp.data import template_process
from mebp.errors import Error
from support.templates import template_of

TEST = Path(__file__).resolve().parents[1]
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
HOST = """
import sys
from pathlib import Path
from support.templates import template_of
template = template_of(Path({folder!r}), {source!r})
print(template._process._worker._process.pid, flush=True)
{then}
"""


def wait_until(true: Callable[[], bool], seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.02)


def worker_of(template: object) -> int:
    return template._process._worker._process.pid


def start_host(folder: Path, source: str, then: str) -> tuple[subprocess.Popen, int]:
    """A program without a main guard, in a process group of its own, and its worker's id."""
    code = HOST.format(folder=str(folder), source=source, then=then)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(TEST)])}
    host = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        process_group=0,
    )
    return host, int(host.stdout.readline())


def is_running(process: int) -> bool:
    try:
        # A process that nobody has waited for has ended all the same.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_ctrl_c_ends_a_rendering_at_once(tmp_path: Path) -> None:
    host, worker = start_host(tmp_path, ENDLESS, "template.render([])")
    with host:
        os.killpg(host.pid, signal.SIGINT)
        assert host.communicate()[1].splitlines()[-1] == "KeyboardInterrupt"
    wait_until(lambda: not is_running(worker), 5)


def test_ctrl_c_that_the_program_catches_leaves_the_template_usable(tmp_path: Path) -> None:
    source = "{% if messages %}{{ messages[0] }}{% else %}" + ENDLESS + "{% endif %}"
    then = """
try:
    template.render([])
except KeyboardInterrupt:
    print(template.render(["afterwards"]))
"""
    host, _ = start_host(tmp_path, source, then)
    with host:
        time.sleep(0.5)
        os.killpg(host.pid, signal.SIGINT)
        assert host.communicate() == ("afterwards\n", "")


def test_it_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    host, worker = start_host(tmp_path, "x", "import time; time.sleep(600)")
    with host:
        assert is_running(worker)
        host.kill()
    wait_until(lambda: not is_running(worker))


def test_it_ends_when_nobody_needs_it(tmp_path: Path) -> None:
    template = template_of(tmp_path, "x")
    worker = worker_of(template)
    assert is_running(worker)
    del template
    gc.collect()
    assert not is_running(worker)


def test_one_that_was_killed_is_started_again(tmp_path: Path) -> None:
    template = template_of(tmp_path, "x")
    os.kill(worker_of(template), signal.SIGKILL)
    message = "the model's chat template ends the process that renders it, by SIGKILL"
    with pytest.raises(Error, match=message):
        template.render([])
    assert template.render([]) == "x"


def test_a_forked_process_has_one_of_its_own(tmp_path: Path) -> None:
    template = template_of(tmp_path, "{{ messages[0] }}")
    worker = worker_of(template)
    child = os.fork()
    if not child:
        same = [template.render([text]) for text in ("a", "b")] == ["a", "b"] and worker_of(template) != worker
        os._exit(0 if same else 1)
    assert [template.render([str(number)]) for number in range(100)] == [str(number) for number in range(100)]
    assert os.waitpid(child, 0)[1] == 0
    assert worker_of(template) == worker and is_running(worker)


def test_threads_get_their_own_answers(tmp_path: Path) -> None:
    template, wrong = template_of(tmp_path, "{{ messages[0] }}"), []

    def render(name: str) -> None:
        wrong.extend(name for _ in range(100) if template.render([name]) != name)

    threads = [threading.Thread(target=render, args=(name * 1000,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_time_is_held_where_the_alarm_was_ignored_and_blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_process, "_SECONDS", 0.5)
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    try:
        template = template_of(tmp_path, ENDLESS)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(Error, match=r"takes more than 0\.5 seconds"):
        template.render([])


def test_nothing_is_imported_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jinja2", "json", "struct", "textwrap"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the current folder')")
    monkeypatch.chdir(tmp_path)
    assert template_of(tmp_path, "x").render([]) == "x"


def test_what_cannot_be_started_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(Error) as caught:
        template_of(tmp_path, "x")
    assert str(caught.value) == (
        f"{tmp_path}: the chat template cannot be read ({tmp_path}/no-python cannot be started: No such file or "
        "directory); correct it"
    )


def test_a_program_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "worker.py"
    program.write_text("import jinja2_that_is_not_there")
    monkeypatch.setattr(template_process, "_PROGRAM", program)
    with pytest.raises(Error) as caught:
        template_of(tmp_path, "x")
    assert str(caught.value) == (
        f"{tmp_path}: the chat template cannot be read (cannot be rendered: ModuleNotFoundError: No module named "
        "'jinja2_that_is_not_there'); correct it"
    )
