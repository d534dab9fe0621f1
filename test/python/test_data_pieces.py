# SPDX-License-Identifier: Apache-2.0
"""Chat templates in pieces, held to transformers, and to the rows that training makes."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

import mebp
from mebp.data import load_dataset
from mebp.data.checking_pieces import CONVERSATIONS, generate, pieces_of
from mebp.data.conversations import Turns, conversation_row
from mebp.data.finding_pieces import MARK, UncomposedError
from mebp.data.pieces import Pieces, UnfitError
from mebp.exporter.tokenizer import PIECES, write_pieces
from mebp.tokenizer import Tokenizer
from support.composed import FAMILIES, compose
from support.textmodel import CHATML, make_text_bundle
from support.trl_templates import BEGIN, ENDS, FOLDER, marked_tokenizer

TRL = sorted(file.stem for file in FOLDER.glob("*.jinja") if not file.stem.endswith("_training"))
DATE = "it writes the date of the day"
UNCOMPOSED = {"gptoss": DATE, "llama3_2": DATE, "muse_glimmer": DATE}
IN_PARTS = ("idefics3", "llava_next")  # contents that are no text
WITHOUT_SYSTEM = {"gemma"}
ANY = {"llama": "llama3", "phi": "phi3", "qwen": "qwen3", "gemma": "gemma3"}

TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Who?"},
    {"role": "assistant", "content": "Me."},
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "So."},
]


@pytest.fixture(scope="module")
def backend():
    return marked_tokenizer()


def source_of(name: str) -> str:
    return FAMILIES[name] if name in FAMILIES else (FOLDER / f"{name}.jinja").read_text()


def tokenizer_of(backend, folder: Path, source: str, end: str = "<|im_end|>") -> Tokenizer:
    (folder / "tokenizer").mkdir(parents=True, exist_ok=True)
    backend.save(str(folder / "tokenizer" / "tokenizer.json"))
    settings = {"eos_token": end, "bos_token": BEGIN}
    (folder / "tokenizer" / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "tokenizer" / "chat_template.jinja").write_text(source)
    return Tokenizer(folder)


def end_of(name: str) -> str:
    return next((text for prefix, text in ENDS.items() if name.startswith(prefix)), "<|im_end|>")


@pytest.mark.parametrize("name", [*FAMILIES, *TRL])
def test_pieces_are_the_template(backend, tmp_path, name):
    """By chat.json alone: transformers' texts and prompts, and the ids and labels that training has."""
    source, end = source_of(name), end_of(name)
    tokenizer = tokenizer_of(backend, tmp_path, source, end)
    if name in UNCOMPOSED:
        with pytest.raises(UncomposedError) as caught:
            pieces_of(tokenizer)
        assert str(caught.value) == UNCOMPOSED[name]
        return
    pieces = pieces_of(tokenizer)
    written = json.loads(json.dumps(pieces.to_json()))
    reference = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end, bos_token=BEGIN)
    reference.chat_template = source
    conversations = generate(pieces, MARK.findall(source), CONVERSATIONS)
    systems = sum(messages[0]["role"] == "system" for messages in conversations)
    assert len(conversations) == CONVERSATIONS and (name in WITHOUT_SYSTEM or systems >= 60)
    assert {len(messages) for messages in conversations} >= {*range(1, 9)}

    for messages in conversations:
        given = in_parts(messages) if name in IN_PARTS else messages
        text, _ = compose(written, messages)
        added = "<|user|>" if name == "glm4moe" and messages[-1]["role"] == "assistant" else ""
        assert text == reference.apply_chat_template(given, tokenize=False) + added
        if messages[-1]["role"] == "user":
            text, spans = compose(written, messages, is_prompt=True)
            assert text == reference.apply_chat_template(
                given, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
            assert pieces.compose(messages, is_prompt=True) == (text, spans)

    answered = [each for each in conversations if any(message["role"] == "assistant" for message in each)]
    assert rows_of(written, pieces, tokenizer, answered) == learned_rows(tokenizer, tmp_path, answered)


def in_parts(messages: Sequence[dict]) -> list[dict]:
    return [{**each, "content": [{"type": "text", "text": each["content"]}]} for each in messages]


def rows_of(written: dict, pieces: Pieces, tokenizer: Tokenizer, conversations: Sequence) -> list:
    rows = []
    for messages in conversations:
        text, spans = compose(written, messages)
        row = conversation_row(Turns(text, spans, written["marked"], True), tokenizer, pieces.ends)
        rows.append((row.ids.tolist(), row.labels.tolist()))
    return [row for row in rows if np.any(np.array(row[1][1:]) >= 0)]


def learned_rows(tokenizer: Tokenizer, folder: Path, conversations: Sequence) -> list:
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in conversations))
    return [(row.ids.tolist(), row.labels.tolist()) for row in load_dataset(data, tokenizer, 100_000).rows]


def test_most_templates_compose():
    assert len(TRL) - len(UNCOMPOSED) >= 18 and UNCOMPOSED.keys() <= {*TRL}
    assert {*ANY.values()} <= {*TRL} - UNCOMPOSED.keys()


@pytest.mark.parametrize("name", ["chatml", "smollm2", "mistral", "mistral v3", "mistral v7", *ANY.values()])
@pytest.mark.parametrize("system", [True, False])
def test_with_and_without_system(backend, tmp_path, name, system):
    tokenizer = tokenizer_of(backend, tmp_path, source_of(name), end_of(name))
    pieces = pieces_of(tokenizer)
    turns = TURNS[not system :]
    text, spans = pieces.compose(turns)
    assert [text[start:stop].count(each) for (start, stop), each in zip(spans, ("Me.", "So."), strict=True)] == [1, 1]
    assert ("Be brief." in text) == (system and name != "mistral v3")  # which has it in the last question alone
    prompt, _ = pieces.compose(turns[:-1], is_prompt=True)
    assert ("Be brief." in prompt) == system and prompt.index("Me.") < prompt.index("Why?")


def turns_with(role: str, content: str) -> list[dict]:
    return [{**each, "content": content} if each["role"] == role else each for each in TURNS]


@pytest.mark.parametrize(
    ("name", "role", "content", "why"),
    [
        ("qwen3", "assistant", "<think>Hm.</think>Me.", "the template reads '</think>' as its own"),
        ("qwen3", "user", "<tool_response>", "the template reads '<tool_response>' as its own"),
        ("glm4moe", "assistant", " ", "the template writes a turn without a word otherwise"),
    ],
)
def test_contents_that_a_template_reads_are_refused(backend, tmp_path, name, role, content, why):
    pieces = pieces_of(tokenizer_of(backend, tmp_path, source_of(name), end_of(name)))
    with pytest.raises(UnfitError) as caught:
        pieces.compose(turns_with(role, content))
    assert str(caught.value) == why


def test_a_system_that_the_template_refuses(backend, tmp_path):
    pieces = pieces_of(tokenizer_of(backend, tmp_path, source_of("gemma"), end_of("gemma")))
    with pytest.raises(UnfitError, match="the template refuses a turn of the system"):
        pieces.compose(TURNS)
    with pytest.raises(UnfitError, match="turn 1 is not the user's"):
        pieces.compose(TURNS[2:])


LOOP = "{%% for m in messages %%}<s>{{ m.role }} %s</s>{%% endfor %%}"
DISAGREEING = {
    "it writes what the user says 2 times": LOOP % "{{ m.content }}{{ m.content }}",
    "it writes what the assistant says 0 times": LOOP % "{% if m.role == 'user' %}{{ m.content }}{% endif %}",
    "it writes a turn of the user otherwise after more turns": LOOP % "{{ loop.index }} {{ m.content }}",
    "it changes more than the ends of what the user says, or looks at them": LOOP
    % "{{ m.content | replace('\n', ' ') }}",
    "otherwise than its pieces": LOOP % "{{ m.content | replace('灯', 'lamp') }}",
    DATE: LOOP % "{{ strftime_now('%Y') }} {{ m.content }}",
    "it takes more than 0.2 seconds for a conversation of 8 turns": LOOP
    % "{% for a in range(3000) %}{% for b in range(2000) %}{% endfor %}{% endfor %}{{ m.content }}",
    "it writes half of a surrogate pair": r"{{ '\ud800' }}" + LOOP % "{{ m.content }}",
    'cannot find the assistant\'s turns; mark them in the template with {% generation %}, or give "prompt" and '
    '"completion"': LOOP % "{{ m.content }}" + "{% if add_generation_prompt %}?{% endif %}",
    "it refuses a question and its answer without a system's turn": "{{ raise_exception('never') }}",
}


@pytest.mark.parametrize("why", DISAGREEING)
def test_export_says_why_one_does_not_compose(backend, tmp_path, capsys, why):
    tokenizer_of(backend, tmp_path, DISAGREEING[why])
    write_pieces(tmp_path / "tokenizer", "model")
    said = capsys.readouterr().err
    assert said.startswith("note: model: its chat template does not come in pieces, so C cannot use it: ")
    assert said.count("\n") == 1 and said.endswith(f"{why}\n")
    assert not (tmp_path / "tokenizer" / PIECES).exists()


def test_no_template_keeps_the_export_waiting(backend, tmp_path, capsys, monkeypatch):
    tokenizer_of(backend, tmp_path, FAMILIES["chatml"])
    monkeypatch.setattr("mebp.data.checking_pieces._ALL_SECONDS", 0.0)
    write_pieces(tmp_path / "tokenizer", "model")
    assert capsys.readouterr().err.endswith("C cannot use it: it takes too long to render\n")


def test_export_writes_them(backend, tmp_path, capsys):
    tokenizer = tokenizer_of(backend, tmp_path, FAMILIES["smollm2"])
    write_pieces(tmp_path / "tokenizer", "model")
    file = tmp_path / "tokenizer" / PIECES
    assert json.loads(file.read_text()) == pieces_of(tokenizer).to_json() and file.stat().st_size < 20_000
    (tmp_path / "tokenizer" / "chat_template.jinja").unlink()
    file.unlink()
    write_pieces(tmp_path / "tokenizer", "model")
    assert capsys.readouterr().err == "" and not file.exists()


def test_bundles_have_them(tmp_path):
    bundle = make_text_bundle(tmp_path)
    assert json.loads((bundle / "tokenizer" / PIECES).read_text()) == pieces_of(Tokenizer(bundle)).to_json()


def test_they_are_in_a_model_that_is_written_and_made_anew_when_that_is_exported(tmp_path):
    bundle = make_text_bundle(tmp_path)
    pieces = (bundle / "tokenizer" / PIECES).read_bytes()
    mebp.Session(bundle).save_adapter(tmp_path / "adapter")
    mebp.merge(bundle, adapter=tmp_path / "adapter", output=tmp_path / "merged")
    mebp.compile(tmp_path / "model.onnx", tmp_path / "full.mebp", seq_len=32, weights="bf16", train="full")
    mebp.Session(tmp_path / "full.mebp").save_model(tmp_path / "trained")
    for folder in (tmp_path / "merged", tmp_path / "trained"):
        assert (folder / PIECES).read_bytes() == pieces
        exported = tmp_path / f"{folder.name}-again"
        mebp.export(folder, exported / "model.onnx", seq_len=32)
        assert (exported / "tokenizer" / PIECES).read_bytes() == pieces

    # Those of a template that is no longer there do not go on.
    (tmp_path / "merged" / "chat_template.jinja").write_text(CHATML.replace("im_start", "im_begin"))
    mebp.export(tmp_path / "merged", tmp_path / "other" / "model.onnx", seq_len=32)
    made = json.loads((tmp_path / "other" / "tokenizer" / PIECES).read_text())
    assert made == pieces_of(Tokenizer(tmp_path / "other")).to_json() != json.loads(pieces)
    (tmp_path / "merged" / "chat_template.jinja").unlink()
    mebp.export(tmp_path / "merged", tmp_path / "none" / "model.onnx", seq_len=32)
    assert not (tmp_path / "none" / "tokenizer" / PIECES).exists()
