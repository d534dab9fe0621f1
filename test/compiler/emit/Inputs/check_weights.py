# SPDX-License-Identifier: Apache-2.0
"""check_weights.py BUNDLE.txt WEIGHTS.bin SOURCE.bin: what is stored is what was there, to the storage's precision.

BUNDLE.txt is program.pb as protoc prints it.
"""

import re
import sys
from pathlib import Path

import numpy

bundle, weights, original = map(Path, sys.argv[1:])
text, stored, source = bundle.read_text(), weights.read_bytes(), original.read_bytes()
originals = {
    "table": numpy.frombuffer(source, "<f4", 640).reshape(16, 40),
    "up": numpy.frombuffer(source, "<f4", 1600, 2560).reshape(40, 40),
    "up_bias": numpy.frombuffer(source, "<f4", 40, 8960).reshape(1, 40),
}


def read(weight: dict[str, str]) -> tuple[numpy.ndarray, float]:
    """The stored matrix [rows, columns], and the largest error that its storage may make."""
    rows, columns = int(weight["rows"]), int(weight["columns"])
    offset = int(weight.get("data_offset", 0))
    if weight["element"] == "F32":
        return numpy.frombuffer(stored, "<f4", rows * columns, offset).reshape(rows, columns), 0.0
    if weight["element"] == "BF16":
        bits = numpy.frombuffer(stored, "<u2", rows * columns, offset).astype("<u4") << 16
        return bits.view("<f4").reshape(rows, columns), 2.0**-9
    groups = -(-columns // 32)
    scales, minima = (
        numpy.frombuffer(stored, "<f2", rows * groups, int(weight[name])).reshape(rows, groups, 1).astype("f4")
        for name in ("scales_offset", "minima_offset")
    )
    if weight["element"] == "INT4":
        packed = numpy.frombuffer(stored, "u1", rows * groups * 16, offset)
        codes = numpy.stack([packed & 15, packed >> 4], axis=-1)
    else:
        codes = numpy.frombuffer(stored, "u1", rows * groups * 32, offset)
    # Symmetric 4 bits reach from -8 to 7 steps: what is as far off as the largest, but on the other side, is cut.
    steps = 1.01 if weight["element"] == "INT4" and (minima == -8 * scales).all() else 0.51
    values = scales * codes.reshape(rows, groups, 32) + minima
    return values.reshape(rows, -1)[:, :columns], float(abs(scales).max()) * steps + 1e-3


for block in re.findall(r"\nweights \{\n(.*?)\n\}", text, re.DOTALL):
    weight = dict(re.findall(r'(\w+): "?([^"\n]*)"?', block))
    original = originals[weight["name"]]
    values, tolerance = read(weight)
    if weight.get("transposed") == "true":
        values = values.T
    error = float(abs(values - original).max())
    print(weight["name"], weight["element"], "agrees" if error <= tolerance else f"is off by {error}")
