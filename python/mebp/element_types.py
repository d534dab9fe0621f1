# SPDX-License-Identifier: Apache-2.0
"""The types of a model's weights, and what safetensors, ONNX and torch call them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ElementType:
    safetensors: str
    onnx: str  # in onnx_ir.DataType
    torch: str  # in torch, and in config.json
    bytes: int


ELEMENT_TYPES = {
    "f32": ElementType("F32", "FLOAT", "float32", 4),
    "bf16": ElementType("BF16", "BFLOAT16", "bfloat16", 2),
    "f16": ElementType("F16", "FLOAT16", "float16", 2),
}
STORED_TYPES = {each.safetensors: each for each in ELEMENT_TYPES.values()}
