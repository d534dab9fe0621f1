# SPDX-License-Identifier: Apache-2.0
"""Lists that are kept by hand, in mebp.h, are those of the library."""

import re
from pathlib import Path

from mebp.extension import load_runtime

HEADER = Path(__file__).parents[2] / "runtime" / "include" / "mebp" / "mebp.h"


def test_optimizers_are_those_of_the_library():
    listed = HEADER.read_text(encoding="utf-8").split("typedef enum mebp_optimizer", 1)[1].split("}", 1)[0]
    assert {name.lower() for name in re.findall(r"MEBP_(\w+) = \d+", listed)} == {
        name for name, _ in load_runtime().optimizers()
    }
