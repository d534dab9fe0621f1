# SPDX-License-Identifier: Apache-2.0
"""Which signals pause a run and which let it go on."""

import os
import signal

from mebp.training.interrupts import pausing

CONTINUE, PAUSE = signal.SIGCONT, signal.SIGUSR1


def send(*numbers: int) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


def never() -> bool:
    return False


def test_signals_pause_and_go_on():
    before = signal.getsignal(PAUSE)
    with pausing("SIGUSR1") as pauses:
        send(CONTINUE)
        assert not pauses.is_asked
        for goes_on in (CONTINUE, PAUSE):
            send(PAUSE, PAUSE)  # before the step has ended
            assert pauses.is_asked
            pauses.begin()
            send(goes_on)  # while the state is still being saved
            pauses.wait(never)
            assert not pauses.is_asked
        send(PAUSE)
        pauses.begin()
        send(CONTINUE, PAUSE)  # it is to pause again
        pauses.wait(never)
        assert pauses.is_asked
        pauses.begin()
        pauses.wait(lambda: True)
        send(CONTINUE)
        assert not pauses.is_asked
    assert signal.getsignal(PAUSE) == before


def test_without_a_signal_nothing_is_listened_to():
    before = signal.getsignal(CONTINUE)
    with pausing(None) as pauses:
        assert signal.getsignal(CONTINUE) == before and not pauses.is_asked
