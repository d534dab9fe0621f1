# SPDX-License-Identifier: Apache-2.0
"""What counts in conversations, by the chat templates that TRL ships, held to TRL's own variants of them for training.

The originals are rendered; the variants say by {% generation %} what TRL learns. docs/data.md has the differences.
"""

import json
import re

import numpy as np
import pytest
from jinja2 import TemplateError
from transformers import PreTrainedTokenizerFast

from mebp.data import Row, load_dataset
from mebp.data.chat_template import ChatTemplate
from mebp.data.counting import Counting
from mebp.data.sources import Source
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from support.trl_templates import BEGIN, ENDS, FOLDER, marked_tokenizer

NAMES = sorted(file.name.removesuffix("_training.jinja") for file in FOLDER.glob("*_training.jinja"))


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def answer(text: str, **keys: object) -> dict:
    return {"role": "assistant", "content": text, **keys}


CALLS = [{"type": "function", "id": "call00001", "function": {"name": "look", "arguments": {"x": "1"}}}]
RESULT = {"role": "tool", "content": "13", "name": "look", "tool_call_id": "call00001"}
PARAMETERS = {"type": "object", "properties": {"x": {"type": "string", "description": "what"}}, "required": ["x"]}
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": PARAMETERS}}]
LAST = [user("Who?"), answer("Me.")]
NEXT = [user("Why?"), answer("So.")]
SAMPLES = {
    "last": {"messages": LAST},
    "several": {"messages": LAST + NEXT},
    "system": {"messages": [{"role": "system", "content": "Be brief."}, *LAST, *NEXT]},
    "tools": {"messages": [LAST[0], answer("", tool_calls=CALLS), RESULT, answer("It is 42."), *NEXT], "tools": TOOLS},
    "thoughts": {
        "messages": [
            LAST[0], answer("Me.", reasoning_content="Hm."), NEXT[0], answer("So.", reasoning_content="Oh."),
        ]
    },
    "thoughts in the text": {
        "messages": [
            LAST[0], answer("<think>\nHm.\n</think>\n\nMe."), NEXT[0], answer("<think>\nOh.\n</think>\n\nSo."),
        ]
    },
}  # fmt: skip

# What TRL learns beside what mebp does: what is behind the end mark (a line break, or llava_next's space), the
# assistant's header, an empty thought, and the opened one with which the prompt ends.
LINE, HEADER, THOUGHT, PROMPT = "line", "header", "thought", "prompt"
OPENING = ("nemotron_3_5_lightning", "nemotron_3_nano", "nemotron_3_super", "nemotron_3_ultra", "qwen3_5_think",
           "qwen3_6", "qwen3_8")  # fmt: skip
OPENED = "<think>\n"
HEADERS = {
    "deepseek_r1_distill": ("<｜Assistant｜>", "<｜tool▁outputs▁end｜>"),
    "deepseekv3": ("<｜Assistant｜>",),
    "gptoss": ("<|start|>assistant",),
    "muse_glimmer": ("<|start|>assistant",),
    "qwen2_5": ("\n",),  # its last character
}
EMPTY = re.compile(r"\s*<think>\s*</think>\s*")
DIFFERENCES = {
    "deepseek_r1_distill": {HEADER},
    "deepseekv3": {HEADER},
    "diffusion_gemma": {LINE},
    "gemma": {LINE},
    "gemma3": {LINE},
    "glm4moe": {THOUGHT},
    "gptoss": {HEADER},
    "idefics3": {LINE},
    "lfm2": {LINE},
    "llava_next": {LINE},
    "muse_glimmer": {HEADER},
    "nemotron_3_5_lightning": {LINE, THOUGHT, PROMPT},
    "nemotron_3_nano": {LINE, THOUGHT, PROMPT},
    "nemotron_3_super": {LINE, THOUGHT, PROMPT},
    "nemotron_3_ultra": {LINE, THOUGHT, PROMPT},
    "phi3": {LINE},
    "phi3_5": {LINE},
    "qwen2_5": {HEADER, LINE},
    "qwen2_5_vl": {LINE},
    "qwen3": {LINE, THOUGHT},
    "qwen3_5_nothink": {LINE, THOUGHT},
    "qwen3_5_think": {LINE, THOUGHT},
    "qwen3_6": {LINE, THOUGHT},
    "qwen3_8": {LINE, THOUGHT, PROMPT},
    "qwen3_instruct_2507": {LINE},
    "qwen3_vl": {LINE},
}

# Where the variant renders another text, or the original has the answer after a tool in the turn of the call.
THINKING = ("qwen3", "qwen3_5_nothink", "qwen3_5_think", "qwen3_6")
JSON_CALL = '<tool_call>\n{"name": "look", "arguments": {"x": "1"}}\n</tool_call><|im_end|>'
XML_CALL = "<tool_call>\n<function=look>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call><|im_end|>"
ELSEWHERE = {
    **{(name, sample): ["Me.<|im_end|>", "So.<|im_end|>"] for name in THINKING for sample in ("several", "system")},
    **{
        (name, sample): ["Me.<|im_end|>", f"{'' if name in OPENING else OPENED}Oh.\n</think>\n\nSo.<|im_end|>"]
        for name in THINKING
        for sample in ("thoughts", "thoughts in the text")
    },
    **{
        (name, "tools"): [JSON_CALL if name == "qwen3" else XML_CALL, "It is 42.<|im_end|>", "So.<|im_end|>"]
        for name in THINKING
    },
    ("deepseek_r1_distill", "thoughts in the text"): [f"\n\n{text}<｜end▁of▁sentence｜>" for text in ("Me.", "So.")],
    ("diffusion_gemma", "tools"): [
        '<|tool_call>call:look{x:<|"|>1<|"|>}<tool_call|><|tool_response>',
        "<|turn>model\nIt is 42.<turn|>",
        "So.<turn|>",
    ],
}


@pytest.fixture(scope="module")
def backend():
    return marked_tokenizer()


def runs(backend, ids: list[int], counted: list[bool]) -> list[str]:
    """The texts of tokens that count side by side."""
    flags = np.concatenate([[False], np.asarray(counted, bool), [False]])
    begins, ends = np.flatnonzero(np.diff(flags.astype(int)) == 1), np.flatnonzero(np.diff(flags.astype(int)) == -1)
    return [backend.decode(ids[a:b], skip_special_tokens=False) for a, b in zip(begins, ends, strict=True)]


def without_differences(run: str, name: str, seen: set[str]) -> str:
    """What TRL learns without what mebp does not, and `seen` has what that was."""
    for header in HEADERS.get(name, ()):
        if run.startswith(header):
            seen.add(HEADER)
            run = run.removeprefix(header)
            break
    empty = EMPTY.match(run)
    if empty:
        seen.add(THOUGHT)
        run = run[empty.end() :]
    elif name in OPENING and run.startswith(OPENED):
        seen.add(PROMPT)
        run = run.removeprefix(OPENED)
    ended = run.removesuffix(" " if name == "llava_next" else "\n")
    if ended != run:
        seen.add(LINE)
    return ended


def end_of(name: str) -> str:
    return next((text for prefix, text in ENDS.items() if name.startswith(prefix)), "<|im_end|>")


def tokenizer_of(backend, folder, name: str) -> Tokenizer:
    (folder / "tokenizer").mkdir()
    backend.save(str(folder / "tokenizer" / "tokenizer.json"))
    settings = {"eos_token": end_of(name), "bos_token": BEGIN}
    (folder / "tokenizer" / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "tokenizer" / "chat_template.jinja").write_text((FOLDER / f"{name}.jinja").read_text())
    return Tokenizer(folder)


@pytest.mark.parametrize("name", NAMES)
def test_what_counts(backend, tmp_path, name):
    data, tokenizer = tmp_path / "data.jsonl", tokenizer_of(backend, tmp_path, name)
    original, variant = ((FOLDER / f"{name}{kind}.jinja").read_text() for kind in ("", "_training"))
    reference = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end_of(name), bos_token=BEGIN)

    expected, refused = {}, {}
    for what, sample in SAMPLES.items():
        try:
            expected[what] = reference.apply_chat_template(**renamed(sample, name), chat_template=original)["input_ids"]
        except (TemplateError, TypeError):
            refused[what] = sample
    data.write_text("".join(json.dumps(SAMPLES[what]) + "\n" for what in expected))
    rows, seen = load_dataset(data, tokenizer, 3000).rows, set()
    template = ChatTemplate(tokenizer) if refused else None
    for sample in refused.values():
        with pytest.raises(Error, match="the model's chat template refuses it: "):
            template.render(sample["messages"], tools=sample.get("tools"))
    assert len(expected) >= 3 and {"last", "several"} <= expected.keys()

    for (what, ids), row in zip(expected.items(), rows, strict=True):
        found = row.ids.tolist()
        assert found == [*ids, *([backend.token_to_id("<|user|>")] if name == "glm4moe" else [])], what
        counts = runs(backend, found, (row.labels >= 0).tolist())
        theirs = reference.apply_chat_template(
            **renamed(SAMPLES[what], name), chat_template=variant, return_assistant_tokens_mask=True
        )
        if (name, what) in ELSEWHERE:
            assert counts == ELSEWHERE[name, what], what
            continue
        assert theirs["input_ids"] == found, what
        learned = runs(backend, found, theirs["assistant_masks"])
        assert counts == [without_differences(run, name, seen) for run in learned], what
    assert seen == DIFFERENCES.get(name, set())


def rendered(template: ChatTemplate, messages: list[dict], prompt: bool = False) -> str | None:
    try:
        return template.render(messages, add_generation_prompt=prompt, tools=TOOLS if CALLING in messages else None)
    except Error:
        return None


CALLING = SAMPLES["tools"]["messages"][1]


@pytest.mark.parametrize("name", NAMES)
def test_what_counts_by_option(backend, tmp_path, name):
    """What each --loss-on and --empty-thoughts has in common with the default, whatever the template."""
    tokenizer = tokenizer_of(backend, tmp_path, name)
    template = ChatTemplate(tokenizer)
    line = "\n" if name == "glm4moe" else ""  # which is no part of the header there
    empty = re.compile(rf"{line}<think>\s*</think>\s*")
    samples = [each for each in SAMPLES.values() if rendered(template, each["messages"]) is not None]

    def load(given: list[dict], on: str | None = None, thoughts: str | None = None) -> list[Row]:
        path = tmp_path / "data.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in given))
        counting = Counting.read(on, turn_weights=False, empty_thoughts=thoughts)
        return list(load_dataset(Source.of(path, counting=counting), tokenizer, 3000).rows)

    def counts(row: Row) -> list[str]:
        return runs(backend, row.ids.tolist(), (row.labels >= 0).tolist())

    def texts(rows: list[Row]) -> list[tuple[str, list[str]]]:
        return [(backend.decode(row.ids, skip_special_tokens=False), counts(row)) for row in rows]

    usual = load(samples)
    assert texts(load(samples, "last")) == [(text, counted[-1:]) for text, counted in texts(usual)]
    assert not any("13" in run for row in usual for run in counts(row))  # which a tool has given

    begun = [
        {**each, "messages": each["messages"][: index + 1]}
        for each in samples
        for index, turn in enumerate(each["messages"])
        if turn["role"] == "assistant"
    ]
    assert texts(load(samples, "turns")) == texts(load(begun, "last"))

    learned = texts(load(samples, "all", "learn"))
    assert learned == [(text, [text]) for text, _ in texts(usual)]
    for text, counted in texts(load(samples, "all")):
        assert "".join(counted) == empty.sub("", text)

    for (text, counted), (same, learned) in zip(texts(usual), texts(load(samples, None, "learn")), strict=True):
        assert text == same
        # What is left of a thought that the prompt opens.
        assert [empty.sub("", OPENED * run.startswith("\n</think>") + run) for run in learned] == counted

    for each, row in zip(samples, usual, strict=True):
        prompt = rendered(template, each["messages"][:-1], prompt=True)
        if prompt is not None and texts([row])[0][0].startswith(prompt):
            begins = np.flatnonzero(np.diff((row.labels >= 0).astype(int)) == 1) + 1
            assert begins[-1] >= len(tokenizer.encode(prompt))


def in_parts(messages: list[dict]) -> list[dict]:
    return [{**each, "content": [{"type": "text", "text": each["content"]}]} for each in messages]


def renamed(sample: dict, name: str) -> dict:
    messages = in_parts(sample["messages"]) if name in ("idefics3", "llava_next") else sample["messages"]
    return {"conversation": messages, "tools": sample.get("tools"), "tokenize": True, "return_dict": True}


@pytest.mark.parametrize(
    "family",
    ["glm", "gptoss", "phi3", "gemma3", "llama3", "deepseek_r1", "deepseekv3", "nemotron_3", "lfm2", "cohere"],
)
def test_the_families_are_among_them(backend, family):
    assert len(NAMES) >= 20 and any(name.startswith(family) for name in NAMES)
