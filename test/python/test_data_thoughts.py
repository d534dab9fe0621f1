# SPDX-License-Identifier: Apache-2.0
"""Thoughts and answers apart."""

import pytest

from mebp.data.thoughts import split_thought, thought_and_answer
from support.turns import make


@pytest.mark.parametrize(
    ("text", "is_opened", "apart"),
    [
        ("Me.", False, (None, "Me.")),
        ("<think>\nHm.\n</think>\n\nMe.", False, ("Hm.", "Me.")),
        ("\n<think>Hm.</think>Me.", False, ("Hm.", "Me.")),
        ("<think>\n\n</think>\n\nMe.", False, ("", "Me.")),
        ("Hm.\n</think>\n\nMe.", True, ("Hm.", "Me.")),
        ("</think>Me.", True, ("", "Me.")),
        ("<think>\nHm, and", False, ("Hm, and", "")),
        ("Hm, and", True, ("Hm, and", "")),
        ("[THINK]Hm.[/THINK]Me.", False, ("Hm.", "Me.")),
        ("<|START_THINKING|>Hm.<|END_THINKING|>Me.", False, ("Hm.", "Me.")),
        ("<seed:think>Hm.</seed:think>Me.", False, ("Hm.", "Me.")),
        ("◁think▷Hm.◁/think▷Me.", False, ("Hm.", "Me.")),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Me.<|return|>",
            False,
            ("Hm.", "Me.<|return|>"),
        ),
        ("<|channel>thought\nHm.<channel|>Me.", False, ("Hm.", "Me.")),
        ("Say <think> and </think>.", False, (None, "Say <think> and </think>.")),
        ("I think so.", False, (None, "I think so.")),
        ("<think>Of <think> and [reasoning].</think>Me.", False, ("Of <think> and [reasoning].", "Me.")),
        ("[Reason] because", False, (None, "[Reason] because")),
        ("<thoughtful> Me.", False, (None, "<thoughtful> Me.")),
        ("<|channel|>final<|message|>Me.", False, (None, "Me.")),
        ("", False, (None, "")),
    ],
)
def test_a_text(text, is_opened, apart):
    assert split_thought(text, is_opened) == apart


@pytest.mark.parametrize(
    ("prompt", "completion", "apart"),
    [
        ("<|assistant|>", "<think>Hm.</think>Me.<|end|>", ("Hm.", "Me.")),
        ("<|assistant|><think>\n", "Hm.\n</think>Me.<|end|>", ("Hm.", "Me.")),
        ("<|assistant|><think>\n\n</think>\n\n", "Me.<|end|>", (None, "Me.")),
        ("Think: <think> and on", "Me.", (None, "Me.")),
        ("<|assistant|><think>\n", "Hm", ("Hm", "")),
    ],
)
@pytest.mark.parametrize("is_special", [False, True])
def test_tokens(tmp_path, prompt, completion, apart, is_special):
    marks, tags = ("<|endoftext|>", "<|assistant|>", "<|end|>"), ("<think>", "</think>")
    tokenizer = make(tmp_path, "", (*marks, *(tags if is_special else ())), () if is_special else tags)
    assert thought_and_answer(tokenizer, tokenizer.encode(prompt), tokenizer.encode(completion)) == apart
