# SPDX-License-Identifier: Apache-2.0
"""Each answer of a conversation is found, also by templates that write earlier turns differently."""

import pytest

from mebp.chat import Chat
from mebp.data.spans import _SIGNS
from support.turns import ANSWERED, ASKED, CALLS, TWICE, learned, make, names

SPECIAL = ("<|endoftext|>", "<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|message|>")
PROMPT = "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
# As gpt-oss: the last answer has an end of its own, and so have calls.
CHANNELS = (
    "{% for m in messages %}{{ '<|start|>' + m.role + ('<|message|>' + m.content | trim if m.content else '') }}"
    "{{ '<|message|>call' if m.tool_calls }}"
    "{{ '<|call|>' if m.tool_calls else '<|return|>' if loop.last and m.role == 'assistant' else '<|end|>' }}"
    "{% endfor %}" + PROMPT
)
# As Phi-3: something follows the last turn.
CLOSED = (
    "{% for m in messages if m.role != 'tool' %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant<|message|>' }}{% else %}<|endoftext|>{% endif %}"
)
# As Qwen 3: answers after the last question have a thought, if only an empty one.
THINKING = (
    "{% set n = namespace(last=0, seen=0) %}"
    "{% for m in messages if m.role == 'user' %}{% set n.last = loop.index %}{% endfor %}"
    "{% for m in messages %}{% if m.role == 'user' %}{% set n.seen = n.seen + 1 %}{% endif %}"
    "{{ '<|start|>' + m.role + '\\n' }}{% if m.role == 'assistant' and n.seen == n.last %}"
    "{{ '<think>\\n' + (m.reasoning_content or '') + '\\n</think>\\n\\n' }}{% endif %}"
    "{{ m.content + ('call' if m.tool_calls else '') + '<|end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\\n<think>\\n' }}{% endif %}"
)
CALLING = [{"role": "assistant", "content": "", "tool_calls": CALLS}, {"role": "tool", "content": "4\n"}]
TOOLS = [*ASKED, *CALLING, ANSWERED[1], *TWICE[2:]]
THOUGHTS = [turn | ({"reasoning_content": "Hm."} if turn["role"] == "assistant" else {}) for turn in TWICE]


@pytest.mark.parametrize(
    ("template", "turns", "answers"),
    [
        (CHANNELS, TWICE, ["<|message|>Me.<|end|>", "<|message|>So.<|return|>"]),
        (CHANNELS, TOOLS, ["<|message|>call<|call|>", "<|message|>Me.<|end|>", "<|message|>So.<|return|>"]),
        (CLOSED, TWICE, ["Me.<|end|>", "So.<|end|>\n<|endoftext|>"]),
        (CLOSED, TOOLS, ["<|end|>", "Me.<|end|>", "So.<|end|>\n<|endoftext|>"]),
        (THINKING, TWICE, ["Me.<|end|>", "So.<|end|>"]),
        (THINKING, TOOLS, ["call<|end|>", "Me.<|end|>", "So.<|end|>"]),
        (THINKING, TOOLS[:4], ["call<|end|>", "Me.<|end|>"]),
        (THINKING, THOUGHTS, ["Me.<|end|>", "Hm.\n</think>\n\nSo.<|end|>"]),  # behind what the prompt has opened
    ],
)
def test_every_answer_counts(tmp_path, template, turns, answers):
    tokenizer = make(tmp_path, template, SPECIAL)
    masked = [*turns[:-1], {**turns[-1], "weight": 0}]
    assert learned(tmp_path, tokenizer, turns, masked) == ["".join(answers), "".join(answers[:-1])]


def test_many_turns(tmp_path):
    tokenizer = make(tmp_path, CHANNELS, SPECIAL)
    many = len(_SIGNS) // 2 + 2  # so that a sign comes twice
    turns = TWICE[:2] * many
    assert learned(tmp_path, tokenizer, [*turns, *TWICE[2:]]) == [
        "<|message|>Me.<|end|>" * many + "<|message|>So.<|return|>"
    ]


def test_what_ends_an_earlier_answer_alone_does_not_stop_the_model(tmp_path):
    tokenizer = make(tmp_path, CHANNELS, SPECIAL)
    assert names(tokenizer, Chat(tokenizer).stop_tokens()) == {"<|endoftext|>", "<|return|>", "<|call|>"}
