# SPDX-License-Identifier: Apache-2.0
"""What counts in conversations, by the chat templates that TRL ships, held to TRL's own variants of them for training.

The originals are rendered; the variants say by {% generation %} what TRL learns. docs/data.md has the differences.
"""

import json
import re

import numpy as np
import pytest
from jinja2 import TemplateError
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from mebp.data import load_dataset
from mebp.data.chat_template import ChatTemplate
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from support import judges
from support.textmodel import byte_tokenizer

FOLDER = judges.FOLDER / "trl" / "chat_templates"
NAMES = sorted(file.name.removesuffix("_training.jinja") for file in FOLDER.glob("*_training.jinja"))

MARK = re.compile(
    r"<[|｜][^<>\s]{1,40}[|｜]>|\[gMASK\]|<sop>|</?(?:think|tool_call|tool_response)>|<(?:start|end)_of_turn>"
    r"|<\|?(?:turn|channel|tool_call|tool_response)\|?>|<\|\"\|>"
)
BEGIN = "<bos>"
ENDS = {
    "cohere": "<|END_OF_TURN_TOKEN|>",
    "deepseek": "<｜end▁of▁sentence｜>",
    "diffusion": "<turn|>",
    "gemma": "<end_of_turn>",
    "glm": "<|endoftext|>",
    "gptoss": "<|return|>",
    "idefics": "<end_of_utterance>",
    "llama": "<|eot_id|>",
    "llava": "</s>",
    "muse": "<|eot|>",
    "phi": "<|endoftext|>",
}


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def answer(text: str, **keys: object) -> dict:
    return {"role": "assistant", "content": text, **keys}


CALLS = [{"type": "function", "id": "call00001", "function": {"name": "look", "arguments": {"x": "1"}}}]
RESULT = {"role": "tool", "content": "42", "name": "look", "tool_call_id": "call00001"}
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
# assistant's header, an empty thought.
LINE, HEADER, THOUGHT = "line", "header", "thought"
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
    "nemotron_3_5_lightning": {LINE, THOUGHT},
    "nemotron_3_nano": {LINE, THOUGHT},
    "nemotron_3_super": {LINE, THOUGHT},
    "nemotron_3_ultra": {LINE, THOUGHT},
    "phi3": {LINE},
    "phi3_5": {LINE},
    "qwen2_5": {HEADER, LINE},
    "qwen2_5_vl": {LINE},
    "qwen3": {LINE, THOUGHT},
    "qwen3_5_nothink": {LINE, THOUGHT},
    "qwen3_5_think": {LINE, THOUGHT},
    "qwen3_6": {LINE, THOUGHT},
    "qwen3_8": {LINE, THOUGHT},
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
        (name, sample): ["Me.<|im_end|>", "<think>\nOh.\n</think>\n\nSo.<|im_end|>"]
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
    """A token for each byte, and one for each mark of any template."""
    if not NAMES:
        judges.missing("TRL's templates are not there")
    texts = {BEGIN, *ENDS.values()}.union(*(MARK.findall(file.read_text()) for file in FOLDER.glob("*.jinja")))
    found = byte_tokenizer()
    found.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in sorted(texts)])
    return found


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
    ended = run.removesuffix(" " if name == "llava_next" else "\n")
    if ended != run:
        seen.add(LINE)
    return ended


@pytest.mark.parametrize("name", NAMES)
def test_what_counts(backend, tmp_path, name):
    end = next((text for prefix, text in ENDS.items() if name.startswith(prefix)), "<|im_end|>")
    folder, data = tmp_path / "tokenizer", tmp_path / "data.jsonl"
    folder.mkdir()
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": end, "bos_token": BEGIN}))
    original, variant = ((FOLDER / f"{name}{kind}.jinja").read_text() for kind in ("", "_training"))
    (folder / "chat_template.jinja").write_text(original)
    reference = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end, bos_token=BEGIN)
    tokenizer = Tokenizer(tmp_path)

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
