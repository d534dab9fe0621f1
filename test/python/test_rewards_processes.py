# SPDX-License-Identifier: Apache-2.0
"""Commands that reward: no shell, limits, and nothing of them that outlives the call or the caller."""

import fcntl
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.rewards.processes import MOST_WRITTEN, StoppedError, converse

PATIENCE = 60  # seconds, for what takes a fraction of one on a machine with nothing else to do
# Says that it is there, and holds a lock as long as it lives.
LIVES = "import fcntl, os, time; file = open('held', 'w'); fcntl.flock(file, fcntl.LOCK_EX); os.mkdir('there'); "
SLEEPS = LIVES + "time.sleep(1000)"


def never() -> bool:
    return False


def python(source: str) -> list[str]:
    return [sys.executable, "-c", source]


def in_background(source: str, then: str) -> list[str]:
    """A shell that starts a Python program, waits until it is there, and goes on."""
    started = f"{shlex.join(python(source))} & while [ ! -d there ]; do sleep 0.01; done; "
    return ["/bin/sh", "-c", started + then]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wait_until_gone() -> None:
    """The program that LIVES; its locks end with it, also where nobody waits for it."""
    end = time.monotonic() + PATIENCE
    with Path("held").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                assert time.monotonic() < end, "it still runs"
                time.sleep(0.01)


def test_there_is_no_shell(here):
    words = ["$(touch ran)", "; touch ran", "&& touch ran", "| touch ran", "> ran", "`touch ran`", "*", "~", "$HOME"]
    ended = converse([*python("import sys; print(sys.argv[1:])"), *words], b"", PATIENCE, never)
    assert ended.status == 0 and ended.written.decode() == f"{words}\n"
    assert not any(here.iterdir())


def test_more_than_a_pipe_holds_goes_both_ways():
    given = b"x" * 3_000_000
    ended = converse(["/bin/cat"], given, PATIENCE, never)
    assert (ended.status, ended.written, ended.complaint) == (0, given, b"")


def test_it_need_not_read():
    ended = converse(python("print(1)"), b"x" * 3_000_000, PATIENCE, never)
    assert (ended.status, ended.written) == (0, b"1\n")


def test_the_end_of_its_complaint_is_kept():
    ended = converse(python("import sys; sys.stderr.write('x' * 3_000_000 + 'why'); sys.exit(3)"), b"", 0, never)
    assert ended.status == 3 and ended.complaint.endswith(b"why") and len(ended.complaint) < 100_000


def test_one_that_takes_too_long_ends_with_all_that_it_started():
    with pytest.raises(Error) as caught:
        converse(in_background(SLEEPS, "sleep 1000"), b"", 1, never)
    assert str(caught.value) == ("has not answered after 1 s; give it more with --reward-timeout, or 0 for no limit")
    if Path("there").exists():  # a busy machine may not have started it in that time
        wait_until_gone()


def test_one_that_writes_too_much_ends():
    source = "import os\nwhile True: os.write(1, b'x' * 65536)"
    with pytest.raises(Error) as caught:
        converse(python(source), b"", PATIENCE, never)
    assert str(caught.value) == "writes more than 16 MB; write one line for each completion"
    ended = converse(python(f"print('x' * ({MOST_WRITTEN} - 1))"), b"", PATIENCE, never)
    assert len(ended.written) == MOST_WRITTEN


def test_what_it_leaves_behind_ends():
    ended = converse(in_background(SLEEPS, "echo 1"), b"", 0, never)  # which holds its output open
    assert (ended.status, ended.written) == (0, b"1\n")
    wait_until_gone()


def test_what_left_its_group_is_not_waited_for():
    source = LIVES + "os.setsid(); os.rename('there', 'gone'); time.sleep(1); print('late')"
    words = ["/bin/sh", "-c", f"{shlex.join(python(source))} & while [ ! -d gone ]; do sleep 0.01; done; echo 1"]
    assert converse(words, b"", 0, never).written == b"1\n"
    wait_until_gone()  # by itself


def test_a_run_that_is_to_end_ends_it():
    with pytest.raises(StoppedError):
        converse(python(SLEEPS), b"", 0, stop=Path("there").exists)
    wait_until_gone()


def test_ctrl_c_ends_it():
    """Outside a run, where nobody else takes the signal."""

    def press():
        while not Path("there").exists():
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        converse(python(SLEEPS), b"", 0, never)
    pressing.join()
    wait_until_gone()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_process_that_called_it(number):
    source = (
        "import signal\nfrom mebp.rewards.processes import converse\nsignal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        f"converse({in_background(SLEEPS, 'sleep 1000')}, b'', 0, lambda: False)"
    )
    with subprocess.Popen(python(source)) as process:
        try:
            while not Path("there").exists():
                assert process.poll() is None
                time.sleep(0.01)
        finally:
            process.send_signal(number)
    wait_until_gone()


def test_nothing_is_left_of_one_that_cannot_be_run(here):
    (here / "no_program").write_text("")
    (here / "no_program").chmod(0o755)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(OSError):
        converse(["./no_program"], b"", 0, never)
    assert len(os.listdir("/dev/fd")) == before
