# SPDX-License-Identifier: Apache-2.0
"""What bench/small_machine.py stands on: files that the system forgets, and a group that counts what is read again."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest
from parts.memory_group import FILES, MemoryGroup, find_controller, memory_group
from parts.page_cache import cached_bytes, drop_cached

import mebp

MIB = 1 << 20
# Reads a file, and touches as much memory of its own as it is told.
PROGRAM = """
import mmap, sys
own = mmap.mmap(-1, int(sys.argv[2]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for start in range(0, len(own), 4096): own[start] = 1
print(sum(len(block) for block in iter(lambda file=open(sys.argv[1], "rb"): file.read(1 << 20), b"")))
"""


def program(file: Path, own: int) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(file), str(own)]


@pytest.fixture
def folder(tmp_path) -> Path:
    """One with 32 MiB in a file."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(tmp_path)], capture_output=True, text=True).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} is in memory; give --basetemp a folder on a disk")
    (tmp_path / "file").write_bytes(os.urandom(32 * MIB))
    return tmp_path


@pytest.fixture
def groups() -> Path:
    """Where groups can be made."""
    try:
        with memory_group(MIB) as group:
            return group.folder.parent
    except mebp.Error as error:
        pytest.skip(str(error))


def test_a_folder_s_pages_are_dropped(folder):
    (folder / "empty").touch()
    # What else runs may have pushed out some of what was just read.
    assert (folder / "file").read_bytes() and 0 < cached_bytes(folder / "file") <= 32 * MIB
    drop_cached(folder)
    assert cached_bytes(folder / "file") == cached_bytes(folder / "empty") == 0


def test_pages_that_stay_are_an_error(folder):
    with (folder / "file").open("rb") as file:
        held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        assert held[5 * MIB] is not None
        with pytest.raises(OSError, match=r"^.*/file: [\d,]+ bytes stay in memory; put it on a disk, where no other"):
            drop_cached(folder)


def test_the_group_counts_memory_and_page_cache(folder, groups):
    drop_cached(folder)
    with memory_group(128 * MIB) as group:
        usage = group.run(program(folder / "file", 48 * MIB))
    assert usage.output == f"{32 * MIB}\n"
    assert 80 * MIB < usage.highest < 110 * MIB
    assert usage.read >= 32 * MIB
    assert usage.at_limit == 0
    assert not list(groups.glob(f"mebp-{os.getpid()}"))


def test_the_page_cache_gives_way_at_the_limit(folder, groups):
    drop_cached(folder)
    with memory_group(64 * MIB + 1) as group:
        usage = group.run(program(folder / "file", 44 * MIB))
    assert 63 * MIB < usage.highest <= 64 * MIB
    assert usage.at_limit > 0


def test_what_does_not_fit_is_killed(folder, groups):
    name = Path(sys.executable).name
    message = f"^{name} was killed: it needs more than 33,554,432 bytes$"
    with pytest.raises(mebp.Error, match=message), memory_group(32 * MIB) as group:
        group.run(program(folder / "file", 64 * MIB))
    assert not list(groups.glob(f"mebp-{os.getpid()}"))


def test_a_failing_command_says_why(groups):
    with memory_group(64 * MIB) as group:
        with pytest.raises(mebp.Error, match="^no such luck$"):
            group.run([sys.executable, "-c", "import sys; sys.exit('first\\nno such luck')"])
        with pytest.raises(mebp.Error, match="^sh ended with status 3$"):
            group.run(["sh", "-c", "exit 3"])


def test_the_newer_kind_of_group(tmp_path):
    for name in ("memory.max", "memory.swap.max"):
        (tmp_path / name).write_text("max\n")
    (tmp_path / "memory.peak").write_text("4096\n")
    (tmp_path / "memory.events").write_text("low 1\nhigh 2\nmax 7\noom 3\n")
    group = MemoryGroup(tmp_path, FILES["cgroup2"])
    group.limit(3 * 4096 + 5)
    assert [(tmp_path / name).read_text() for name in ("memory.max", "memory.swap.max")] == ["12288", "0"]
    assert (group.read("highest"), group.read("at_limit")) == (4096, 7)


def mounts(tmp_path: Path, line: str) -> Path:
    (tmp_path / "mounts").write_text(f"proc /proc proc rw 0 0\n{line}\n")
    return tmp_path / "mounts"


def test_machines_without_groups_are_refused(tmp_path):
    root = tmp_path / "root"
    name = root / f"mebp-{os.getpid()}"
    cases = {
        f"cgroup {root} cgroup rw,cpu 0 0": "no mounted control group has the memory controller; mount one, or run on "
        "a machine that has it",
        f"cgroup {root} cgroup rw,memory 0 0": f"{name}: cannot make this control group: No such file or directory; "
        "run as root",
    }
    for line, message in cases.items():
        with pytest.raises(mebp.Error) as refusal, memory_group(MIB, mounts(tmp_path, line)):
            pass
        assert str(refusal.value) == message


def test_groups_that_count_too_little_are_refused(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpu memory\n")
    (root / "cgroup.subtree_control").write_text("cpu\n")
    line = f"cgroup2 {root} cgroup2 rw 0 0"
    assert find_controller(f"{line}\n") == (root, FILES["cgroup2"])
    message = "has no memory.peak, which newer kernels have; run on one of them$"
    with pytest.raises(mebp.Error, match=message), memory_group(MIB, mounts(tmp_path, line)):
        pass
    assert (root / "cgroup.subtree_control").read_text() == "+memory"
    assert sorted(path.name for path in root.iterdir()) == ["cgroup.controllers", "cgroup.subtree_control"]


def test_the_command_refuses_in_one_line():
    script = Path(__file__).resolve().parents[2] / "bench" / "small_machine.py"
    run = subprocess.run([sys.executable, str(script), "--limit", "128"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("small_machine.py: --limit 128 ") and run.stderr.count("\n") == 1
