# SPDX-License-Identifier: Apache-2.0
"""onnx_metadata.py MODEL.onnx OUT.onnx KEY TEXT TIMES: adds KEY with that many times TEXT to the model's metadata."""

import sys
from pathlib import Path

import onnx

source, target, key, text, times = sys.argv[1:]
model = onnx.load(source)
model.metadata_props.add(key=key, value=text * int(times))
Path(target).write_bytes(model.SerializeToString())
