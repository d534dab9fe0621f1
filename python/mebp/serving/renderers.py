# SPDX-License-Identifier: Apache-2.0
"""Ollama's renderers and parsers, which write and read conversations in place of a model's template.

A parser without a renderer would be worse than none: with either, Ollama does not use the template of the GGUF file. So
what has a parser only, as Qwen3, is served by its template.
"""

from typing import NamedTuple

READ_VERSION = "0.33.0-rc2"  # of Ollama: whose model/renderers and model/parsers this table is of
_EMPTY_THOUGHT = "{%- if not enable_thinking -%}\n            {{- '<|channel>thought\\n<channel|>' -}}"


class Rendering(NamedTuple):
    """What RENDERER and PARSER of a Modelfile name."""

    renderer: str
    parser: str


class Row(NamedTuple):
    """A template of these models that has all of `marks` and none of `lacks` is what `rendering` writes."""

    model_types: tuple[str, ...]
    marks: tuple[str, ...]
    lacks: tuple[str, ...]
    rendering: Rendering


# The first that fits counts.
ROWS = (
    Row(("qwen3_5_text", "qwen3_5_moe_text"), ("<function=", "reasoning_effort"), (), Rendering("qwen3.8", "qwen3.5")),
    Row(("qwen3_5_text", "qwen3_5_moe_text"), ("<function=", "<think>"), (), Rendering("qwen3.5", "qwen3.5")),
    Row(("qwen3_moe", "qwen3_next"), ("<function=",), ("<think>",), Rendering("qwen3-coder", "qwen3-coder")),
    Row(("gemma3_text",), ("<start_function_declaration>",), (), Rendering("functiongemma", "functiongemma")),
    Row(("gemma4_text",), ("<|turn>", _EMPTY_THOUGHT), (), Rendering("gemma4-large", "gemma4")),
    Row(("gemma4_text",), ("<|turn>",), (), Rendering("gemma4-small", "gemma4")),
    Row(("lfm2", "lfm2_moe"), ("<|tool_list_start|>", "</think>"), (), Rendering("lfm2-thinking", "lfm2-thinking")),
    Row(("lfm2", "lfm2_moe"), ("<|tool_list_start|>",), (), Rendering("lfm2", "lfm2")),
)


def rendering_of(model_type: str, template: str) -> Rendering | None:
    """What Ollama has for a model of this type of config.json, and this chat template; None where it has nothing."""
    for row in ROWS:
        has_marks = all(mark in template for mark in row.marks) and not any(mark in template for mark in row.lacks)
        if model_type in row.model_types and has_marks:
            return row.rendering
    return None
