# SPDX-License-Identifier: Apache-2.0
"""scripts/build_times.py: which folder's a command is, and that each counts once."""

from pathlib import Path
from types import ModuleType

import pytest

from support.scripts import load


@pytest.fixture(scope="module")
def times() -> ModuleType:
    return load("scripts/build_times.py")


@pytest.mark.parametrize(
    ("output", "folder"),
    [
        ("compiler/plan/CMakeFiles/mebp_plan.dir/CostModel.cpp.o", "compiler/plan"),
        ("runtime/CMakeFiles/mebp.dir/backends/cpu/choice.cpp.o", "runtime/backends"),
        ("CMakeFiles/mebp_headers.dir/cmake_pch.hxx.gch", "."),
        ("/home/me/mebp/build/dialects/nn/NNOps.h.inc", "dialects/nn"),
        ("bin/mebpc", "bin"),
    ],
)
def test_folders(times, output, folder):
    assert times.folder_of(output, Path("/home/me/mebp/build")) == folder


def test_a_command_counts_once(times, tmp_path):
    log = tmp_path / ".ninja_log"
    lines = [
        (0, 1000, "a.h.inc", "one"),  # made with b.h.inc
        (0, 1000, "b.h.inc", "one"),
        (1000, 4000, "c.o", "two"),
        (9000, 9500, "c.o", "two"),  # made again
    ]
    rows = [f"{start}\t{end}\t0\t{name}\t{command}" for start, end, name, command in lines]
    log.write_text("\n".join(["# ninja log v5", *rows]))
    assert times.read_log(log) == {"b.h.inc": 1.0, "c.o": 0.5}
