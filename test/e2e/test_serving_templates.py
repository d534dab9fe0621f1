# SPDX-License-Identifier: Apache-2.0
"""Conversations by llama.cpp's template engine and the template in a merged GGUF file, against transformers."""

import shutil
from datetime import datetime
from pathlib import Path

import pytest
from jinja2 import TemplateError
from transformers import PreTrainedTokenizerFast

import mebp
from mebp.gguf.container import read_container
from mebp.serving.go_template import CONVERSATIONS, TOOLS
from mebp.verification.inputs import randomise_adapter
from support import models
from support.llama_server import llama_server
from support.pipeline import make_bundle
from support.trl_templates import BEGIN, ENDS, FOLDER, marked_tokenizer

FIVE = {"system", "several turns", "tool", "thought", "none"}
NO_TOOLS = FIVE - {"tool"}
# What the template takes; it refuses the other conversations.
FAMILIES = {
    "cohere": NO_TOOLS,
    "deepseekv3": NO_TOOLS,
    "gemma": NO_TOOLS - {"system"},
    "gemma3": NO_TOOLS,
    "gemma4": FIVE,
    "glm4moe": FIVE,
    "gptoss": FIVE,
    "lfm2": FIVE,
    "lfm2_2_5": FIVE,
    "llama3": FIVE,
    "llama3_1": FIVE,
    "llama3_2": FIVE,
    "nemotron_3_nano": FIVE,
    "phi3": FIVE,
    "phi3_5": FIVE,
    "qwen2_5": FIVE,
    "qwen3": FIVE,
    "qwen3_5_nothink": FIVE,
    "qwen3_5_think": FIVE,
    "qwen3_6": FIVE,
    "qwen3_8": FIVE,
    "qwen3_instruct_2507": FIVE,
}
# These think only if they are asked to, and llama.cpp's server asks.
SILENT = {"gemma4", "qwen3_5_nothink"}
RENDERERS = {
    "gemma4": ("gemma4_text", "gemma4-small", "gemma4"),
    "lfm2": ("lfm2", "lfm2", "lfm2"),
    "qwen3_5_think": ("qwen3_5_text", "qwen3.5", "qwen3.5"),
    "qwen3_6": ("qwen3_5_moe_text", "qwen3.5", "qwen3.5"),
    "qwen3_8": ("qwen3_5_text", "qwen3.8", "qwen3.5"),
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """A bundle with room for every mark, and an adapter beside it."""
    folder = tmp_path_factory.mktemp("tiny")
    bundle = make_bundle(models.build("llama", vocab_size=1024), folder, seq_len=16)
    session = mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(folder / "adapter")
    return bundle


def test_the_families_are_those_that_llama_cpp_is_given():
    assert CONVERSATIONS.keys() == FIVE and len(FAMILIES) > 20


@pytest.mark.parametrize("family", FAMILIES)
def test_five_conversations_have_the_template_s_tokens(tiny, tmp_path, family):
    backend = marked_tokenizer([("t", "h")])
    end = next((mark for name, mark in ENDS.items() if family.startswith(name)), "<|im_end|>")
    reference = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end, bos_token=BEGIN)
    reference.chat_template = (FOLDER / f"{family}.jinja").read_text()
    bundle, file = tmp_path / "model.mebp", tmp_path / "model.gguf"
    shutil.copytree(tiny, bundle)
    reference.save_pretrained(bundle / "tokenizer")
    result = mebp.merge(bundle, tiny.parent / "adapter", file)
    assert read_container(file).metadata["tokenizer.chat_template"] == reference.chat_template
    assert "TEMPLATE" not in result.modelfile.text and f'stop "{end}"' in result.modelfile.text
    assert result.modelfile.no_thoughts == (family in SILENT)
    assert any("--think=false" in note for note in result.modelfile.notes) == (family in SILENT)
    # Llama 3.1's has a date of its own, for which llama.cpp gives it today's.
    given = {"date_string": datetime.now().strftime("%d %b %Y")} if family == "llama3_1" else {}
    switched = {"enable_thinking": False} if family in SILENT else {}
    seen = set()
    with llama_server(file) as server:
        for name, messages in CONVERSATIONS.items():
            tools = TOOLS if name == "tool" else None
            try:
                expected = reference.apply_chat_template(
                    messages, tools=tools, add_generation_prompt=True, return_dict=False, **given
                )
            except (TemplateError, TypeError):
                continue
            seen.add(name)
            assert server.tokens(server.prompt(messages, tools, **switched)) == expected, name
    assert seen == FAMILIES[family]


@pytest.mark.parametrize("family", RENDERERS)
def test_ollama_s_own_renderers_are_named_together(family):
    from mebp.serving.renderers import rendering_of

    model_type, *expected = RENDERERS[family]
    assert rendering_of(model_type, (FOLDER / f"{family}.jinja").read_text()) == tuple(expected)
    assert rendering_of("llama", (FOLDER / f"{family}.jinja").read_text()) is None
    assert rendering_of(model_type, (FOLDER / "llama3.jinja").read_text()) is None
