# SPDX-License-Identifier: Apache-2.0
"""onnx_text.py MODEL.onnxtxt MODEL.onnx: ONNX's textual form to its binary one."""

import sys
from pathlib import Path

import onnx.parser

source, target = map(Path, sys.argv[1:])
target.write_bytes(onnx.parser.parse_model(source.read_text()).SerializeToString())
