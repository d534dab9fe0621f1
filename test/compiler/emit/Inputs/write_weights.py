# SPDX-License-Identifier: Apache-2.0
"""write_weights.py FILE [INDEX VALUE]: the tensors of model.onnxtxt, small numbers; one of them may be replaced."""

import sys

import numpy

values = (((numpy.arange(2280) * 37) % 101 - 50) / 64).astype("<f4")
if len(sys.argv) > 2:
    values[int(sys.argv[2])] = float(sys.argv[3])
values.tofile(sys.argv[1])
