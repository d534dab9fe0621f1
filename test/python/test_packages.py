# SPDX-License-Identifier: Apache-2.0
"""Lists that the packages for apps keep by hand are those of the library."""

import re
from pathlib import Path

from mebp.extension import load_runtime

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "runtime" / "include" / "mebp" / "mebp.h"
KOTLIN = ROOT / "packages" / "android" / "mebp" / "src" / "main" / "kotlin" / "org" / "mebp" / "Session.kt"
SWIFT = ROOT / "packages" / "swift" / "Sources" / "Mebp" / "Session.swift"


def listed(path: Path, beginning: str, name: str) -> dict[str, int]:
    part = path.read_text(encoding="utf-8").split(beginning, 1)[1].split("}", 1)[0]
    return {found[1].lower(): int(found[2]) for found in re.finditer(name, part)}


def test_their_optimizers_are_those_of_the_library():
    numbers = listed(HEADER, "typedef enum mebp_optimizer", r"MEBP_(\w+) = (\d+)")
    assert numbers.keys() == {name for name, _ in load_runtime().optimizers()}
    assert listed(KOTLIN, "enum class Optimizer", r"(\w+)\((\d+)\)") == numbers
    assert listed(SWIFT, "enum Optimizer", r"(\w+) = (\d+)") == numbers
