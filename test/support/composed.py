# SPDX-License-Identifier: Apache-2.0
"""Composes conversations by chat.json alone, as docs/format.md says it; and templates of families to try it with."""

from collections.abc import Mapping, Sequence

_TRIMS = {"": "", "line breaks": "\n", "spaces": " ", "white space": None}


def compose(pieces: Mapping, messages: Sequence[Mapping[str, str]], is_prompt: bool = False) -> tuple[str, list]:
    said, turns = None, messages
    if messages[0]["role"] == "system":
        form = next(each for each in pieces["forms"] if each["system"] is not None and each["prompt"] == is_prompt)
        said, turns = _cut(messages[0]["content"], form["system"]), messages[1:]
        if pieces["skips_empty_system"] and not said:
            said = None
    form = next(
        each for each in pieces["forms"] if (each["system"] is None) == (said is None) and each["prompt"] == is_prompt
    )
    text, spans = "", []
    for index, turn in enumerate(turns):
        rows = form["pieces"][turn["role"]]
        piece = pieces["pieces"][rows[0 if index < 2 else 1][min(len(turns) - 1 - index, 2)]]
        text += (said or "").join(piece["before"])
        start = len(text)
        text += piece["within"] + _cut(turn["content"], piece["trim"]) + piece["end"]
        if turn["role"] == "assistant":
            spans.append((start, len(text)))
        text += (said or "").join(piece["after"])
    return text, spans


def _cut(content: str, trim: Sequence[str]) -> str:
    return content.lstrip(_TRIMS[trim[0]]).rstrip(_TRIMS[trim[1]])


_CHATML = "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}"
_PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
_SPLIT = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set turns = messages[1:] %}"
    "{% else %}{% set turns = messages %}{% endif %}"
)
FAMILIES = {
    "chatml": "{% for m in messages %}" + _CHATML + "{% endfor %}" + _PROMPT,
    "smollm2": "{% for m in messages %}{% if loop.first and m.role != 'system' %}"
    "{{ '<|im_start|>system\\nYou are of some help.<|im_end|>\\n' }}{% endif %}" + _CHATML + "{% endfor %}" + _PROMPT,
    # The system speaks within the first question, within the last one, or in a turn.
    "mistral": _SPLIT + "{{ bos_token }}{% for m in turns %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('turns alternate') }}{% endif %}{% if m.role == 'user' %}{{ ' [INST] ' }}"
    "{% if loop.first and system is defined %}{{ system + '\\n\\n' }}{% endif %}{{ m.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}",
    "mistral v3": _SPLIT + "{{ bos_token }}{% for m in turns %}{% if m.role == 'user' %}"
    "{{ '[INST] ' + (system + '\\n\\n' if loop.last and system is defined else '') + m.content + '[/INST]' }}"
    "{% else %}{{ ' ' + m.content | trim + eos_token }}{% endif %}{% endfor %}",
    "mistral v7": "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}"
    "{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}{% elif m.role == 'user' %}"
    "{{ '[INST]' + m.content + '[/INST]' }}{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}",
    "marked": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}"
    "{% endif %}{{ '\\n' }}{% endfor %}" + _PROMPT,
}
