# SPDX-License-Identifier: Apache-2.0
"""Chat templates by name, as transformers keeps and chooses them."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from mebp.data import load_dataset
from mebp.data.chat_template import ChatTemplate
from mebp.errors import Error
from mebp.exporter.template_files import read_templates
from mebp.exporter.tokenizer import copy_tokenizer, tokenizer_files
from mebp.model_folder import copy_files, copy_templates, discard_templates
from mebp.tokenizer import Tokenizer
from support.textmodel import make_tokenizer

TURNS = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Me."}]
TOOLS = [{"type": "function", "function": {"name": "look", "description": "", "parameters": {}}}]
PLAIN = "{% for m in messages %}{{ '<|im_start|>' + m.content + '<|im_end|>' }}{% endfor %}"
MARKED = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}|{{ tools | length }}"
TEMPLATES = {"default": PLAIN, "tool_use": MARKED, "rag": "{{ documents | length }}"}


def write(folder: Path, form: str, templates: dict[str, str]) -> Path:
    tokenizer = folder / "tokenizer"
    make_tokenizer(tokenizer)
    (tokenizer / "chat_template.jinja").unlink(missing_ok=True)
    settings = json.loads((tokenizer / "tokenizer_config.json").read_text())
    if form == "list":
        settings["chat_template"] = [{"name": name, "template": text} for name, text in templates.items()]
    elif form == "mapping":
        settings["chat_template"] = templates
    else:
        settings["chat_template"] = "not this one"
        (tokenizer / "additional_chat_templates").mkdir()
        for name, text in templates.items():
            file = "chat_template" if name == "default" else f"additional_chat_templates/{name}"
            (tokenizer / f"{file}.jinja").write_text(text)
    (tokenizer / "tokenizer_config.json").write_text(json.dumps(settings))
    (tokenizer / "config.json").write_text('{"model_type": "llama"}')
    return tokenizer


@pytest.mark.parametrize("form", ["list", "mapping", "folder"])
@pytest.mark.parametrize("names", [("default", "tool_use", "rag"), ("default", "rag"), ("default",)], ids=" ".join)
def test_the_one_that_transformers_chooses(tmp_path, form, names):
    folder = write(tmp_path, form, {name: TEMPLATES[name] for name in names})
    reference, template = AutoTokenizer.from_pretrained(folder), ChatTemplate(Tokenizer(tmp_path))
    for tools in (None, [], TOOLS):
        expected = reference.apply_chat_template(TURNS, tools=tools, tokenize=False)
        assert template.render(TURNS, tools=tools) == expected
        assert template.marks(tools) == ("tool_use" in names and tools is not None)


def test_samples_with_and_without_tools_side_by_side(tmp_path):
    write(tmp_path, "folder", TEMPLATES)
    tokenizer, data = Tokenizer(tmp_path), tmp_path / "data.jsonl"
    data.write_text(
        "".join(json.dumps({"messages": TURNS} | with_tools) + "\n" for with_tools in ({"tools": TOOLS}, {}))
    )
    rows = load_dataset(data, tokenizer, 100).rows
    decode = tokenizer.backend.decode
    assert [decode(row.ids.tolist(), skip_special_tokens=False) for row in rows] == [
        "Who?Me.|1",
        "<|im_start|>Who?<|im_end|><|im_start|>Me.<|im_end|>",
    ]
    assert [decode(row.ids[row.labels >= 0].tolist(), skip_special_tokens=False) for row in rows] == [
        "Who?Me.",
        "<|im_start|>Me.<|im_end|>",
    ]


def test_without_a_default(tmp_path):
    folder = write(tmp_path, "folder", {"tool_use": PLAIN, "rag": PLAIN})
    template = ChatTemplate(Tokenizer(tmp_path))
    assert template.render(TURNS, tools=TOOLS) == "<|im_start|>Who?<|im_end|><|im_start|>Me.<|im_end|>"
    with pytest.raises(Error, match="refuses it: it has one for conversations with tools .tool_use., and none for oth"):
        template.render(TURNS)
    (folder / "additional_chat_templates" / "tool_use.jinja").unlink()
    with pytest.raises(Error) as caught:
        ChatTemplate(Tokenizer(tmp_path))
    assert str(caught.value) == (
        f"{folder}: none of the model's chat templates (rag) is its default; save the one that you mean in "
        "chat_template.jinja there"
    )


def test_they_are_kept(tmp_path):
    folder = write(tmp_path / "model", "folder", TEMPLATES)
    exported, merged, adapter = (tmp_path / name for name in ("exported", "merged", "adapter"))
    copy_tokenizer(folder, exported, "model")
    for target in (merged, adapter):
        target.mkdir()
    copy_files(exported, merged)
    copy_templates(exported, adapter)
    for target in (exported, merged, adapter):
        assert read_templates(target, {}) == TEMPLATES
    assert {f"additional_chat_templates/{name}.jinja" for name in ("rag", "tool_use")} <= {*tokenizer_files(folder)}
    discard_templates(adapter)
    assert not list(adapter.iterdir())


def test_one_that_lies_elsewhere_is_not_read(tmp_path):
    folder = write(tmp_path, "folder", TEMPLATES)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "tool_use.jinja").write_text("x")
    file = folder / "additional_chat_templates" / "tool_use.jinja"
    file.unlink()
    file.symlink_to(secret / "tool_use.jinja")
    with pytest.raises(Error, match="additional_chat_templates/tool_use.jinja: is a link to "):
        Tokenizer(tmp_path) and ChatTemplate(Tokenizer(tmp_path))
    for each in (folder / "additional_chat_templates").iterdir():
        each.unlink()
    (folder / "additional_chat_templates").rmdir()
    (folder / "additional_chat_templates").symlink_to(secret)
    with pytest.raises(Error, match="additional_chat_templates: is a link to "):
        ChatTemplate(Tokenizer(tmp_path))
