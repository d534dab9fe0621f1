# SPDX-License-Identifier: Apache-2.0
"""Folders and programs that a benchmark needs: one line where they are not there."""

import re
from pathlib import Path

import pytest
from parts.folders import there
from parts.speed.rates import find_bench

import mebp

BENCH = Path(__file__).resolve().parents[2] / "bench"


def test_a_folder_that_is_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench/speed.py"])
    (tmp_path / "file").write_text("")
    for name, why in {"none": "no such folder; make it first", "file": "is not a folder; name another"}.items():
        with pytest.raises(SystemExit) as ended:
            there(str(tmp_path / name))
        line = f"speed.py: --folder {tmp_path / name}: {why}, or leave it out for a temporary one\n"
        assert ended.value.code == 2 and capsys.readouterr().err == line
    assert there(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("bench", sorted(path.name for path in BENCH.glob("*.py")))
def test_every_benchmark_asks_for_it(bench):
    text = (BENCH / bench).read_text(encoding="utf-8")
    for how in re.findall(r'"--folder",\s*type=(.*)', text):  # one of its own in the system's temporary folder is made
        assert how.startswith("there,") or "default=Path(tempfile.gettempdir())" in how


def test_what_the_kernels_benchmark_needs(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MEBP_TOOLS", raising=False)
    monkeypatch.setattr("mebp.tools._PACKAGED", tmp_path / "a" / "b" / "c" / "bin")
    with pytest.raises(mebp.Error) as refused:
        find_bench("kernel_bench")
    assert str(refused.value) == (
        "kernel_bench is not built; install Google benchmark (libbenchmark-dev), then build it with: cmake -B build "
        "-DMEBP_BUILD_BENCH=ON && cmake --build build"
    )
