# SPDX-License-Identifier: Apache-2.0
"""Files that are read, and files and folders that are written whole or not at all: every line that an error has."""

import os
import re
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.files import (
    check_space,
    made_folders,
    make_parent,
    make_writable_parent,
    new_folder,
    read_bytes,
    read_json,
    read_text,
    replaced_file,
    scratch_folder,
    user_path,
)

ROOT = Path(__file__).resolve().parents[2]


def refusal(call: object, *arguments: object) -> str:
    with pytest.raises(Error) as caught:
        call(*arguments)
    return str(caught.value)


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "file.json"


def test_text(path):
    assert refusal(read_text, path, "look") == f"{path}: cannot be read (No such file or directory); look"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    assert read_text(path, "look") == "one\r\ntwo"
    path.write_bytes(b"one\ntwo \xff")
    assert refusal(read_text, path, "look") == f"{path}:2: is not UTF-8 at byte 8 of the file; convert it"


@pytest.mark.parametrize("change", [lambda path: path.write_text("one"), lambda path: os.utime(path, (1, 1))])
def test_text_that_changes_while_it_is_read(path, monkeypatch, change):
    path.write_text("one\ntwo\n")
    fstat = os.fstat

    def fstat_before_a_change(file: int) -> os.stat_result:
        found = fstat(file)
        change(path)
        return found

    monkeypatch.setattr(os, "fstat", fstat_before_a_change)
    assert refusal(read_text, path, "look") == f"{path}: changed while it was read; try again when nothing writes to it"


def test_text_from_a_pipe(path):
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=["one"])
    writer.start()
    assert read_text(path, "look") == "one"
    writer.join()


def test_a_home_folder_in_a_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_path("~/a/~") == user_path(Path("~/a/~")) == tmp_path / "a" / "~"
    assert user_path("a/~") == Path("a/~")
    assert refusal(user_path, "~nobody-here/a") == ("~nobody-here/a: no such home folder; give the whole path")


def test_json(path):
    path.write_text('{"a": [1]}')
    assert read_json(path, "correct it") == {"a": [1]}
    path.write_text("[1]")
    assert refusal(read_json, path, "correct it") == f"{path}: is not a JSON object; correct it"
    path.write_text('{"a"')
    reason = "a colon is missing, line 1, column 5"
    assert refusal(read_json, path, "correct it") == f"{path}: is not JSON ({reason}); correct it"
    path.write_text("[" * 100_000)
    assert refusal(read_json, path, "correct it").startswith(f"{path}: is not JSON (")


def test_a_folder_that_cannot_be_made(tmp_path, path):
    path.touch()
    assert refusal(make_parent, path / "adapter", "choose another") == (
        f"{path}: cannot be made (File exists); choose another"
    )
    assert refusal(make_writable_parent, path / "run.png", "choose another", "--plot: its folder") == (
        "--plot: its folder cannot be made (File exists); choose another"
    )
    assert make_parent(tmp_path / "new" / "er" / "file", "choose another") == tmp_path / "new" / "er"
    assert (tmp_path / "new" / "er").is_dir()


def test_folders_are_gone_after_an_error_if_nothing_is_in_them(tmp_path):
    with made_folders(tmp_path / "kept" / "deep"):
        pass
    for kept in ([], ["one/file", "one"]):
        with pytest.raises(KeyboardInterrupt), made_folders(tmp_path / "one" / "two" / "three"):
            if kept:
                (tmp_path / "one" / "file").touch()
            raise KeyboardInterrupt
        assert below(tmp_path) == sorted([*kept, "kept", "kept/deep"])


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "folder" / "run.png"
    with replaced_file(path, "choose another") as unfinished:
        assert unfinished.suffix == ".png" and not path.exists()
        unfinished.write_text("new")
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), replaced_file(path, "choose another") as unfinished:
            unfinished.write_text("half")
            raise error
    assert path.read_text() == "new" and below(tmp_path) == ["folder", "folder/run.png"]
    with pytest.raises(Error) as caught, replaced_file(path / "beneath", "choose another"):
        pass
    assert str(caught.value) == f"{path}/beneath: cannot be written (File exists); choose another"


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "merged"
    with pytest.raises(ValueError), new_folder(path, "choose another") as folder:
        (folder / "file").touch()
        raise ValueError
    assert below(tmp_path) == []
    with new_folder(path, "choose another") as folder:
        (folder / "file").touch()
        assert not path.exists()
    assert below(tmp_path) == ["new", "new/merged", "new/merged/file"]
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(path.parent.stat().st_mode)
    for taken in (path, path / "file"):
        with pytest.raises(Error) as caught, new_folder(taken, "choose another"):
            pass
        assert str(caught.value) == f"{taken}: exists already; give a new or an empty folder"
    with pytest.raises(Error) as caught, new_folder(path / "file" / "beneath", "choose another"):
        pass
    assert str(caught.value) == f"{path}/file/beneath: cannot be written (File exists); choose another"


def test_pipes_and_devices(path):
    os.mkfifo(path)
    assert refusal(read_bytes, path, "look") == f"{path}: is not a regular file; look"
    assert refusal(read_json, Path("/dev/zero"), "look") == "/dev/zero: is not a regular file; look"


def test_json_that_nobody_wrote(path):
    path.write_text("[" * 200_000)
    assert refusal(read_json, path, "look").startswith(f"{path}: is not JSON (")
    with path.open("wb") as stream:
        stream.truncate(1 << 34)  # a hole, which takes no disk
    assert refusal(read_json, path, "look") == f"{path}: has 17179869184 bytes, more than such a file can have; look"


def test_a_planted_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".writing-run.png").symlink_to(victim)
    with replaced_file(tmp_path / "run.png", "choose another") as unfinished:
        unfinished.write_text("new")
    assert victim.read_text() == "precious"
    assert (tmp_path / "run.png").read_text() == "new" and not (tmp_path / "run.png").is_symlink()


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path):
    left = tmp_path / ".mebp-export-killed"
    (left / "output").mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / ".mebp-export-link").symlink_to(victim)
    with scratch_folder(tmp_path, ".mebp-export-") as first:
        assert not left.exists()
        with scratch_folder(tmp_path, ".mebp-export-") as second:
            assert first.exists() and second.exists()  # one that is in use stays
    assert below(tmp_path) == [".mebp-export-link", "victim"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_what_another_user_planted_stays(tmp_path):
    """Anybody may make a folder in /tmp, by whatever name."""
    for name in (".mebp-export-planted", ".older-model"):
        (tmp_path / name / "deep").mkdir(parents=True)
        os.chown(tmp_path / name, 12345, -1)
    with scratch_folder(tmp_path, ".mebp-export-"), new_folder(tmp_path / "model", "choose another") as folder:
        (folder / "new").touch()
    left = [".mebp-export-planted", ".mebp-export-planted/deep", ".older-model", ".older-model/deep"]
    assert below(tmp_path) == [*left, "model", "model/new"]


def test_permissions_are_there_from_the_beginning(path):
    umask = os.umask(0o002)
    try:
        for permissions in (0o600, 0o666):
            with replaced_file(path, "choose another", permissions) as unfinished:
                assert stat.S_IMODE(unfinished.stat().st_mode) == permissions & ~0o002
            assert stat.S_IMODE(path.stat().st_mode) == permissions & ~0o002
    finally:
        os.umask(umask)


def test_no_permission_is_changed_where_a_file_is_there():
    """It is made with what it is to have. A umask is the whole process's, that of the host's threads, too."""
    changes = re.compile(rb"\b[fl]?chmod(at)?\s*\(|\bumask\s*\(")
    folders = [ROOT / folder for folder in ("python", "runtime", "format", "tools")]
    sources = [file for folder in folders for kind in ("py", "cpp", "h") for file in folder.rglob(f"*.{kind}")]
    assert len(sources) > 300
    assert [file for file in sources if changes.search(file.read_bytes())] == []


def test_room_on_the_disk(tmp_path):
    check_space(tmp_path / "not" / "yet", 1, "the log")
    line = refusal(check_space, tmp_path, 1 << 60, "the log")
    assert line.startswith(f"{tmp_path}: the log needs 1152921504606.8 MB here and ")
    assert line.endswith(" MB are free; make room or choose another folder")


def numbers(folder: Path) -> set[str]:
    return {(folder / name).read_text() for name in ("a", "b")}


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_is_replaced_by_another(tmp_path, monkeypatch, exchanges):
    if not exchanges:
        monkeypatch.setattr("mebp.files._exchanged", lambda *_: False)
    for number in "123":
        with new_folder(tmp_path / "model", "choose another", replace=True) as folder:
            for name in ("a", "b"):
                (folder / name).write_text(number)
        assert numbers(tmp_path / "model") == {number}
    assert below(tmp_path) == ["model", "model/a", "model/b"]


# Every call that changes a name is a process's last in turn; then another process writes a third folder, or fails to.
REPLACING = """
import os, pathlib, signal, sys
from mebp import files
folder, kill_at, exchanges = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"
calls = 0
def counted(call):
    def counting(*given, **named):
        global calls
        if calls == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        calls += 1
        return call(*given, **named)
    return counting
os.rename, os.replace, os.rmdir, os.unlink = map(counted, (os.rename, os.replace, os.rmdir, os.unlink))
files._exchanged = counted(files._exchanged if exchanges else lambda *_: False)
with files.new_folder(folder, "choose another", replace=True) as new:
    for name in ("a", "b"):
        (new / name).write_text("new")
"""


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_kill_while_a_folder_is_replaced_loses_nothing(tmp_path, exchanges):
    for kill_at in range(100):
        model = tmp_path / str(kill_at) / "model"
        model.mkdir(parents=True)
        for name in ("a", "b"):
            (model / name).write_text("old")
        command = [sys.executable, "-c", REPLACING, str(model), str(kill_at), str(exchanges)]
        status = subprocess.run(command, check=False).returncode
        if exchanges:
            assert len(numbers(model)) == 1
        with pytest.raises(ValueError), new_folder(model, "choose another", replace=True):
            raise ValueError  # which puts back what is left
        assert len(numbers(model)) == 1
        if status == 0:
            assert kill_at > 1
            break
        assert status == -signal.SIGKILL
    assert status == 0
