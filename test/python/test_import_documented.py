# SPDX-License-Identifier: Apache-2.0
"""What the importer takes stands where people and the fuzzer look for it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def names_of(source: str, beginning: str, end: str, name: str) -> set[str]:
    """What `name` finds between the two in a source."""
    part = (ROOT / source).read_text(encoding="utf-8").split(beginning, 1)[1].split(end, 1)[0]
    return set(re.findall(name, part))


def taken() -> set[str]:
    like_first = names_of("compiler/import/ImportLikeFirst.cpp", "LikeFirst nodes[]", "};", r'\{"(\w+)",\s+\d')
    return like_first | names_of("compiler/import/ImportNodes.cpp", "GraphImporter::findMethod(", "\n}\n", r'"(\w+)"')


def test_nn_onnx_lists_what_raising_adds():
    flattened = names_of("compiler/import/FlattenTokens.cpp", "TokenFlattener::findMethod(", "\n}\n", r'"(\w+)"')
    flattened |= names_of("compiler/import/FlattenActivations.cpp", "::findActivation(", "\n}\n", r'"(\w+)"')
    own = names_of("compiler/import/OnnxFile.cpp", "kOwnOps[]", "};", r'"(\w+)"')
    listed = names_of("dialects/nn/NNImportOps.td", 'Op<NN_Dialect, "onnx"', "}];", r"`(\w+)`")
    assert listed == (flattened - taken()) | own and own <= taken()


def test_the_fuzzer_draws_every_op():
    drawn = names_of("test/fuzz/onnx.cpp", "ops = split(", ";", r"\w+")
    assert not taken() - drawn
