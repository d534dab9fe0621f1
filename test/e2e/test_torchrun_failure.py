# SPDX-License-Identifier: Apache-2.0
"""Runs in several processes that are stopped, lose one another, or should not begin: all end, and nothing is half-
written."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from mebp.training import state
from support.commands import mebp as command
from support.torchrun import (
    expect_same_adapters,
    own_lines,
    slow_program,
    start,
    torchrun,
    training,
    wait_for_steps,
)

pytestmark = pytest.mark.usefixtures("one_cache")
RESTARTS = 2
LOST_AFTER = 5
WELL = "see whether its machine and the network are well, and start all again"


def pids(folder: Path, processes: int = 2) -> list[int]:
    return [int((folder / f"pid{rank}").read_text()) for rank in range(processes)]


def statuses(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.glob("status*"))]


def wait_until_gone(pid: int) -> None:
    until = time.monotonic() + 120
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("agents", "number", "has_state"),
    [(1, signal.SIGINT, True), (2, signal.SIGTERM, True), (1, signal.SIGINT, False)],
)
def test_a_stopped_run_is_not_restarted(lamp_model, lamp_data, tmp_path, unused_port, agents, number, has_state, show):
    """torchrun starts all again, which end at once, without a step. A start of the user's goes on."""
    log, folder, steps = tmp_path / "log.jsonl", tmp_path / "state", 20
    options = ["--global-batch", 2, *(["--state", folder, "--resume"] if has_state else [])]
    run = training(lamp_model, lamp_data, tmp_path / "out", *options, "--log", log, steps=steps)
    program = slow_program(tmp_path, run)
    port = unused_port if agents > 1 else 0
    started = [start(2 // agents, program, restarts=RESTARTS, meeting=port) for _ in range(agents)]
    wait_for_steps(log, 3, started[0])
    os.kill(pids(tmp_path)[1], number)
    stopped_at = time.monotonic()
    said = [agent.communicate(timeout=300) for agent in started]
    show(f"stopped under torchrun, {RESTARTS} restarts that end at once: {time.monotonic() - stopped_at:.1f} s")
    out, err = ("".join(each) for each in zip(*said, strict=True))
    found = re.search(rf"^stopped after step (\d+) of {steps}", out, re.MULTILINE)
    assert found and int(found[1]) < steps, out + err
    assert log.read_text().count("\n") == int(found[1])
    # Of two agents, one may see that the other starts anew before it sees an end, and does not count that.
    least = 2 * (RESTARTS + 1) if agents == 1 else 3
    assert set(statuses(tmp_path)) == {"130"} and len(statuses(tmp_path)) >= least, out + err
    assert set(re.findall(r"exitcode +: (-?\d+)", err)) == {"130"}
    assert out.count("planned peak") == 1 and (tmp_path / "out" / "adapter_model.safetensors").is_file()
    told = "stopped by a signal, so that no restart goes on with it; start it again, with --resume where it has a state"
    assert err.count(told) == RESTARTS if agents == 1 else err.count(told) > 0
    if has_state:
        assert state.steps(folder) == int(found[1]) and (folder / "stopped").exists()
        alone = command(*training(lamp_model, lamp_data, tmp_path / "1", "--global-batch", 2, steps=steps))
        assert alone.returncode == 0, alone.stderr
        status, out, err = torchrun(2, "-m", "--", "mebp", *run)
        assert status == 0 and f"continues after step {found[1]}" in out, out + err
        assert not (folder / "stopped").exists()
        expect_same_adapters(tmp_path / "1", tmp_path / "out")


def test_ctrl_c_at_torchrun_saves_all(lamp_model, lamp_data, tmp_path):
    log, folder = tmp_path / "log.jsonl", tmp_path / "state"
    run = training(lamp_model, lamp_data, tmp_path / "out", "--state", folder, "--log", log, steps=10**6)
    agent = start(2, slow_program(tmp_path, run))
    wait_for_steps(log, 3, agent)
    agent.send_signal(signal.SIGINT)
    out, err = agent.communicate(timeout=120)
    assert statuses(tmp_path) == ["130", "130"], out + err
    assert state.steps(folder) == log.read_text().count("\n")
    assert (tmp_path / "out" / "adapter_model.safetensors").is_file()


def test_one_that_is_stopped_before_its_first_step_is_not_restarted(lamp_model, lamp_data, tmp_path):
    interrupts = """import mebp.training.request as request
request.bundle_for_all = lambda *_: signal.raise_signal(signal.SIGINT)
"""
    program = slow_program(tmp_path, training(lamp_model, lamp_data, tmp_path / "out"), interrupts)
    agent = start(2, program, restarts=1)
    out, err = agent.communicate(timeout=300)
    assert [path.read_text() for path in tmp_path.glob("status*-1")] == ["130", "130"], out + err
    assert err.count("stopped by a signal, so that no restart goes on with it; ") == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_a_state_is_one_run_s(lamp_model, lamp_data, tmp_path, processes):
    folder = tmp_path / "state"
    run = training(lamp_model, lamp_data, tmp_path / "out", "--global-batch", 2, "--state", folder)
    with state.locked(folder):
        if processes == 1:
            done = command(*run)
            status, err = done.returncode, done.stderr
        else:
            status, _, err = torchrun(processes, "-m", "mebp", *run)
    assert own_lines(err) == [f"mebp: {folder}: another run uses this folder; wait until it ends or choose another"]
    assert status == (2 if processes == 1 else 1) and not (tmp_path / "out" / "adapter_config.json").exists()


def test_a_state_of_another_global_batch_is_refused(lamp_model, lamp_data, tmp_path):
    """Each start ends before a step, so that restarts cost no training."""
    folder = tmp_path / "state"
    made = command(*training(lamp_model, lamp_data, tmp_path / "1", "--global-batch", 2, "--state", folder))
    assert made.returncode == 0, made.stderr
    before = (folder / "state.bin").read_bytes()
    run = training(lamp_model, lamp_data, tmp_path / "2", "--global-batch", 4, "--state", folder, "--resume")
    agent = start(2, "-m", "mebp", *run, restarts=1)
    out, err = agent.communicate(timeout=300)
    line = (f"mebp: {folder}: was made with --global-batch 2, not 4; resume with the same, or start over without "
            "--resume")  # fmt: skip
    assert own_lines(err) == [line, line], out + err
    assert "\nstep " not in out and (folder / "state.bin").read_bytes() == before


@pytest.mark.parametrize("steps", [0, 3])
def test_rank_0_goes_on_from_the_latest_state(lamp_model, lamp_data, tmp_path, unused_port, steps):
    """A folder for each rank stands for machines of their own, of which rank 0's has no state, or an older one."""
    places = [tmp_path / f"machine{rank}" for rank in range(2)]
    for place, count in zip(places, (steps, 5), strict=True):
        place.mkdir()
        if count:
            made = training(
                lamp_model, lamp_data, place / "1", "--global-batch", 2, "--state", place / "s", steps=count
            )
            assert command(*made).returncode == 0
    given = training(lamp_model, lamp_data, "out", "--global-batch", 2, "--state", "s", "--resume")
    program = slow_program(tmp_path, given, f"os.chdir(Path({str(tmp_path)!r}, 'machine' + rank))")
    agents = [start(1, program, meeting=unused_port) for _ in range(2)]
    err = "".join(agent.communicate(timeout=300)[1] for agent in agents)
    host, own = socket.gethostname(), f"the state of step {steps}" if steps else "no state"
    assert own_lines(err) == [
        f"mebp: --state s: rank 0, on {host}, has {own} there, and rank 1, on {host}, has that of step 5; copy it to "
        f"{host}, or name a folder that all machines share"
    ]
    assert statuses(tmp_path) == ["2", "2"] and not (places[0] / "out").exists()


def by_hand(program: Path, port: int, rank: int = 0, size: int = 2, restart: int = 0) -> subprocess.Popen:
    named = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size,
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RESTART_COUNT": restart}  # fmt: skip
    environment = os.environ | {name: str(value) for name, value in named.items()}
    return subprocess.Popen([sys.executable, program], env=environment, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)  # fmt: skip


def test_a_mark_in_the_state_ends_restarts_alone(lamp_model, lamp_data, tmp_path, unused_port, monkeypatch):
    """Before anything is compiled. A call raises what Ctrl-C does."""
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "state"
    folder.mkdir()
    run = training(lamp_model, lamp_data, tmp_path / "out", "--state", folder, "--resume")
    calls = tmp_path / "calls.py"
    calls.write_text(
        f"import mebp\nmebp.train({str(lamp_model)!r}, {str(lamp_data)!r}, state={str(folder)!r}, steps=1)"
    )
    for program, status in ((slow_program(tmp_path, run), 130), (calls, -signal.SIGINT)):
        (folder / "stopped").write_text("2\n")
        restarted = by_hand(program, unused_port, size=1, restart=3)
        out, err = restarted.communicate(timeout=120)
        assert restarted.returncode == status and not (tmp_path / "cache" / "bundles").exists(), out + err
    assert err.splitlines()[-1].endswith("KeyboardInterrupt: a restart of what a signal has stopped")
    begun = by_hand(slow_program(tmp_path, run), unused_port, size=1, restart=2)  # as where machines come and go
    out, err = begun.communicate(timeout=300)
    assert begun.returncode == 0 and not (folder / "stopped").exists(), out + err


def test_processes_that_are_started_by_hand_meet_at_their_port(lamp_model, lamp_data, tmp_path, unused_port):
    run = training(lamp_model, lamp_data, tmp_path / "out", "--global-batch", 2)
    program = slow_program(tmp_path, run)
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = by_hand(program, port)
        _, err = refused.communicate(timeout=120)
    assert own_lines(err) == [f"mebp: MASTER_PORT={port}: another program has this port; name one that is free"]
    assert refused.returncode == 2
    alone = command(*training(lamp_model, lamp_data, tmp_path / "1", "--global-batch", 2))
    assert alone.returncode == 0, alone.stderr
    started = [by_hand(program, unused_port, rank) for rank in range(2)]
    said = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    expect_same_adapters(tmp_path / "1", tmp_path / "out")


@pytest.mark.parametrize(("stopped", "ends_after"), [(0, 0), (1, 0), (1, 2 * LOST_AFTER)])
def test_one_that_is_stopped_in_a_collective_ends_when_it_goes_on(
    lamp_model, lamp_data, tmp_path, stopped, ends_after, monkeypatch
):
    """ends_after: seconds for which its end takes, in which it loses the other in its turn, and says nothing of it."""
    ends = f"""from mebp.distributed.group import LostError
def ending(error, *said):
    time.sleep({ends_after})
LostError.__init__ = ending
"""
    monkeypatch.setenv("MEBP_LOST_AFTER", str(LOST_AFTER))
    log, folder = tmp_path / "log.jsonl", tmp_path / "state"
    options = "--global-batch", 2, "--state", folder, "--save-every", 1, "--log", log
    run = training(lamp_model, lamp_data, tmp_path / "out", *options, steps=10**6)
    agent = start(2, slow_program(tmp_path, run, ends))
    wait_for_steps(log, 3, agent)
    ranks = pids(tmp_path)
    os.kill(ranks[stopped], signal.SIGSTOP)
    wait_until_gone(ranks[1 - stopped])
    with suppress(ProcessLookupError):  # torchrun kills it after half a minute
        os.kill(ranks[stopped], signal.SIGCONT)
    _, err = agent.communicate(timeout=120)
    assert own_lines(err) == [f"mebp: rank {1 - stopped}: rank {stopped} has not answered for {LOST_AFTER} s; {WELL}"]
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks)
    assert 3 <= state.steps(folder) <= log.read_text().count("\n")


def test_all_that_are_stopped_and_continued_go_on(lamp_model, lamp_data, tmp_path, monkeypatch):
    """As by Ctrl-Z and fg: time in which a process itself was stopped loses no other."""
    monkeypatch.setenv("MEBP_LOST_AFTER", str(LOST_AFTER))
    log = tmp_path / "log.jsonl"
    agent = start(2, slow_program(tmp_path, training(lamp_model, lamp_data, tmp_path / "out", "--log", log, steps=20)))
    wait_for_steps(log, 3, agent)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in pids(tmp_path):
            os.kill(pid, number)
        time.sleep(2 * LOST_AFTER if number == signal.SIGSTOP else 0)
    out, err = agent.communicate(timeout=120)
    assert agent.returncode == 0, out + err


def test_all_end_where_the_store_does_not_answer(lamp_model, lamp_data, tmp_path, monkeypatch):
    """Which torchrun has, so that it is stopped here."""
    monkeypatch.setenv("MEBP_LOST_AFTER", str(LOST_AFTER))
    log = tmp_path / "log.jsonl"
    run = training(lamp_model, lamp_data, tmp_path / "out", "--log", log, steps=10**6)
    agent = start(2, slow_program(tmp_path, run))
    wait_for_steps(log, 3, agent)
    os.kill(agent.pid, signal.SIGSTOP)
    until = time.monotonic() + 120
    while any("\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text() for pid in pids(tmp_path)):
        assert time.monotonic() < until
        time.sleep(0.05)
    os.kill(agent.pid, signal.SIGCONT)
    _, err = agent.communicate(timeout=120)
    assert own_lines(err) == [
        f"mebp: rank 0: torchrun's store has not answered for {LOST_AFTER} s; see whether torchrun and the network are "
        "well, and start all again"
    ]


def test_all_end_where_one_loses_the_network(lamp_model, lamp_data, tmp_path):
    """In the middle of a step's sums, all of its connections are shut."""
    log, folder = tmp_path / "log.jsonl", tmp_path / "state"
    shuts = """import socket
from mebp.distributed.group import Group
exchange = Group.exchange
def exchanging(group, sent, received):
    group.exchanges = getattr(group, "exchanges", 0) + 1
    if rank == "1" and group.exchanges == 8:  # there are two in a step
        for name in os.listdir("/proc/self/fd"):
            try:
                socket.socket(fileno=os.dup(int(name))).shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # no connection
    exchange(group, sent, received)
Group.exchange = exchanging
"""
    options = "--global-batch", 2, "--state", folder, "--log", log
    program = slow_program(tmp_path, training(lamp_model, lamp_data, tmp_path / "out", *options), shuts)
    status, _, err = torchrun(2, program)
    (line,) = own_lines(err)
    assert re.match(r"mebp: step 4: rank 0: lost another process \(.*\); see what they say, and start all again", line)
    assert status != 0 and not any(Path(f"/proc/{pid}").exists() for pid in pids(tmp_path))
    assert state.steps(folder) == 3


def test_other_kernels_are_told(lamp_model, lamp_data, tmp_path):
    """Both update alike from the same sums, which is compared after 50 steps. A session beside the run's keeps rank 1
    from taking the kernels of rank 0."""
    run = training(lamp_model, lamp_data, tmp_path / "out", "--global-batch", 2, "--clip", "0.5", steps=51)
    made = command(*run)
    assert made.returncode == 0, made.stderr
    beside = """if rank == "1":
    os.environ["MEBP_KERNELS"] = "portable"
    import mebp
    from mebp.training import loop
    train = loop.train
    def beside(options, *more):
        held = mebp.Session(options.bundle)
        return train(options, *more)
    import mebp.training.request as request
    request.train = beside
"""
    status, out, err = torchrun(2, slow_program(tmp_path, [*run, "--overwrite"], beside))
    assert status == 0, out + err
    if " portable kernels" in out:
        pytest.skip("this machine has no other kernels")
    (own,) = re.findall(r", (\w+) kernels; ", out)
    told = (f"note: rank 1 runs portable kernels, and rank 0 {own} ones, which round differently: another "
            "number of processes gives other bits")  # fmt: skip
    assert err.splitlines().count(told) == 1, err


@pytest.mark.parametrize("given", ["soon", "0", "nan", "inf"])
def test_how_long_to_wait_is_a_number_of_seconds(lamp_model, lamp_data, tmp_path, monkeypatch, given):
    monkeypatch.setenv("MEBP_LOST_AFTER", given)
    status, _, err = torchrun(1, "-m", "mebp", *training(lamp_model, lamp_data, tmp_path / "out"))
    assert own_lines(err) == [
        f"mebp: MEBP_LOST_AFTER={given}: is not a number of seconds above 0; give one, such as 60"
    ]
    assert status != 0
