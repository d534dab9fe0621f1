# SPDX-License-Identifier: Apache-2.0
"""What a Modelfile says, and the templates in it, which Go's own text/template renders."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mebp.data.chat_template import ChatTemplate
from mebp.errors import Error
from mebp.serving.go_template import BASE, CONVERSATIONS, TOOLS, translate
from mebp.serving.modelfile import model_name, modelfile_beside
from mebp.serving.renderers import READ_VERSION, ROWS
from mebp.tokenizer import Tokenizer
from support.judges import missing
from support.templates import template_of
from support.textmodel import CHATML, make_tokenizer

# Turns that ask each other, each after its own kind of header, and an answer that is begun otherwise after a tool.
TURNS = (
    "{% for m in messages %}{% if m.role == 'system' %}[SYS]\n{{ m.content }}[/SYS]\n{% elif m.role == 'user' %}"
    "[ASK \\\"<&>\u2028\U0001f642]{{ m.content }}{% elif m.role == 'tool' %}\n"
    "[FOUND]{{ m.content }}{% else %}[SAY]{{ m.content }}</s>"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}[SAY]{% endif %}"
)
NO_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}"
)
UNTRANSLATED = {
    "trims": CHATML.replace("message['content']", "message['content'] | trim"),
    "lists tools": "{{ tools | tojson if tools else '' }}" + CHATML,
    "writes thoughts": CHATML.replace("message['content']", "(message.reasoning_content or '') + message['content']"),
    "writes calls": CHATML.replace("message['content']", "message['content'] + (message.tool_calls or '') | string"),
    "counts": "{{ messages | length }}" + CHATML,
    "leaves out the first": CHATML.replace("in messages", "in messages[1:]"),
}
DEFAULT_SYSTEM = (
    "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nBe \"kind\".<|im_end|>\n' }}{% endif %}" + CHATML
)


def rendered(template: ChatTemplate):
    def render(messages, tools):
        try:
            return template.render(messages, add_generation_prompt=True, tools=tools)
        except Error:
            return None

    return render


@pytest.fixture(scope="session")
def go(tmp_path_factory):
    """Renders templates by Go's text/template, as Ollama does: missing keys are empty."""
    if shutil.which("go") is None:
        missing("go is not there (Debian's golang-go)")
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(
        "package main\n"
        'import ("encoding/json"; "os"; "text/template")\n'
        "func main() {\n"
        "  var given struct { Template string; Values map[string]any }\n"
        "  if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil { panic(err) }\n"
        '  parsed, err := template.New("").Option("missingkey=zero").Parse(given.Template)\n'
        "  if err != nil { panic(err) }\n"
        "  if err := parsed.Execute(os.Stdout, given.Values); err != nil { panic(err) }\n"
        "}\n"
    )
    program = folder / "render"
    without_modules = {"PATH": os.environ["PATH"], "HOME": str(folder), "GO111MODULE": "off"}
    command = ["go", "build", "-o", program, folder / "main.go"]
    subprocess.run(command, check=True, timeout=600, env=without_modules)

    def render(template: str, **values: object) -> str:
        given = json.dumps({"Template": template, "Values": values})
        return subprocess.run([program], input=given, capture_output=True, text=True, check=True, timeout=60).stdout

    return render


@pytest.mark.parametrize("source", [CHATML, TURNS, NO_SYSTEM], ids=["ChatML", "turns", "no system"])
def test_go_renders_a_translation_as_jinja_does(tmp_path, source, go):
    render = rendered(template_of(tmp_path, source))
    translation = translate(render)
    seen = 0
    for name, messages in CONVERSATIONS.items():
        expected = render(messages, TOOLS if name == "tool" else None)
        turns = [{"Role": message["role"], "Content": message["content"]} for message in messages]
        if expected is not None:
            seen += 1
            assert go(translation, Messages=turns) == expected, name
    assert seen == (4 if source == NO_SYSTEM else 5)


@pytest.mark.parametrize("source", UNTRANSLATED.values(), ids=UNTRANSLATED)
def test_what_does_not_translate(tmp_path, source):
    assert translate(rendered(template_of(tmp_path, source))) is None


def test_go_leaves_a_question_alone_for_a_base_model(go):
    assert go(BASE, Prompt='Who "<&>"?\n', System="") == 'Who "<&>"?\n'


class TestModelfile:
    @pytest.fixture(autouse=True)
    def _given(self, tmp_path):
        self.folder, self.gguf = tmp_path / "model.mebp" / "tokenizer", tmp_path / "my model.gguf"

    def tokenizer(self, chat_template: str | None = CHATML, **files: dict) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        make_tokenizer(self.folder, chat_template)
        for name, content in {"config": {"model_type": "llama"}, **files}.items():
            (self.folder / f"{name}.json").write_text(json.dumps(content))

    def lines(self) -> list[str]:
        found = modelfile_beside(self.gguf, self.folder.parent)
        head, *lines = found.text.splitlines()
        assert head.startswith("# Written by mebp ") and found.text.endswith("\n")
        self.notes = found.notes
        return lines

    def test_of_a_template(self):
        self.tokenizer()
        assert self.lines() == [
            "FROM ./my model.gguf", 'PARAMETER stop "<|endoftext|>"', 'PARAMETER stop "<|im_end|>"'
        ]  # fmt: skip
        assert not self.notes

    def test_what_the_authors_sample_with(self):
        settings = {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": None, "repetition_penalty": 1.05}
        self.tokenizer(generation_config={**settings, "do_sample": True, "typical_p": 1.0})
        drawn = ["PARAMETER temperature 0.7", "PARAMETER top_k 20", "PARAMETER top_p 0.8"]
        penalty = "PARAMETER repeat_penalty 1.05"
        assert self.lines()[1:5] == [*drawn, penalty]
        self.tokenizer(generation_config={**settings, "do_sample": False})
        assert self.lines()[1] == penalty
        self.tokenizer(generation_config={"temperature": "hot\nFROM other", "top_k": True, "top_p": float("inf")})
        assert self.lines()[1].startswith("PARAMETER stop")
        self.tokenizer(generation_config={"top_k": 2.5, "min_p": 1e-07})
        assert self.lines()[1] == "PARAMETER min_p 1e-07"
        self.tokenizer(generation_config={"top_k": 1000000.0})
        assert self.lines()[1] == "PARAMETER top_k 1000000"

    def test_a_system_message_that_the_template_writes_by_itself(self):
        self.tokenizer(DEFAULT_SYSTEM)
        assert self.lines()[1] == 'SYSTEM """Be "kind"."""'

    def test_a_system_message_that_a_modelfile_cannot_hold(self):
        self.tokenizer(DEFAULT_SYSTEM.replace('Be "kind".', 'Be \\"\\"\\"kind.'))
        assert self.lines()[1].startswith("PARAMETER stop")

    def test_a_renderer(self):
        self.tokenizer("<|tool_list_start|>" + CHATML, config={"model_type": "lfm2"})
        assert self.lines()[1:3] == ["RENDERER lfm2", "PARSER lfm2"]

    def test_of_a_base_model(self):
        self.tokenizer(None)
        assert self.lines()[1:] == ['TEMPLATE "{{ .Prompt }}"', 'PARAMETER stop "<|endoftext|>"']

    def named(self, source: str) -> None:
        self.tokenizer(None)
        (self.folder / "additional_chat_templates").mkdir()
        (self.folder / "additional_chat_templates" / "rag.jinja").write_text(source)

    def test_a_template_that_the_file_cannot_carry(self, go):
        self.named(CHATML)
        begin, end = 'TEMPLATE """', '"""'
        line = self.lines()[1]
        assert line.startswith(begin) and line.endswith(end) and not self.notes
        said = go(line.removeprefix(begin).removesuffix(end), Messages=[{"Role": "user", "Content": "Who?"}])
        assert said == "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"

    def test_one_that_does_not_translate(self):
        self.named(UNTRANSLATED["lists tools"])
        assert not any(line.startswith("TEMPLATE") for line in self.lines())
        assert self.notes == [
            "none of the chat templates (rag) is the default that a GGUF file carries, and none translates to Go's, so "
            "there is no TEMPLATE; save one template as chat_template.jinja beside the tokenizer"
        ]

    def test_a_template_that_cannot_be_read(self):
        self.tokenizer("{% for %}")
        assert self.lines() == ["FROM ./my model.gguf"]
        (note,) = self.notes
        assert "the chat template cannot be read" in note and note.endswith("so its Modelfile has no stop marks")

    def test_names_that_are_taken(self):
        self.tokenizer()
        first = self.gguf.with_name("Modelfile")
        assert modelfile_beside(self.gguf, self.folder.parent).path == first
        first.write_text("precious")
        second = self.gguf.with_name("Modelfile-my model")
        found = modelfile_beside(self.gguf, self.folder.parent)
        assert found.path == second and found.command == f"ollama create my-model -f '{second}'"
        second.symlink_to("nowhere")
        with pytest.raises(Error, match="Modelfile-my model: exists already; move it, or name another GGUF file"):
            modelfile_beside(self.gguf, self.folder.parent)
        assert first.read_text() == "precious"

    def test_a_file_whose_name_would_be_another_line(self):
        self.tokenizer()
        self.gguf = self.gguf.with_name("a\nFROM b.gguf")
        with pytest.raises(Error, match="a Modelfile cannot name it"):
            self.lines()

    def test_of_a_model_without_a_tokenizer(self):
        self.folder.mkdir(parents=True)
        assert modelfile_beside(self.gguf, self.folder.parent) is None


def test_names_for_ollama():
    assert [model_name(each) for each in ("My Model (2)", "demo.v1", "..", "Zoë")] == [
        "my-model-2", "demo.v1", "mebp", "zo"
    ]  # fmt: skip


def test_a_template_on_disk_is_the_one_of_the_tokenizer(tmp_path: Path):
    make_tokenizer(tmp_path / "tokenizer")
    template = ChatTemplate(Tokenizer(tmp_path), source="{{ enable_thinking }}", variables={"enable_thinking": True})
    assert template.render([{"role": "user", "content": "x"}]) == "True"


def test_the_page_has_every_row_of_renderers():
    page = (Path(__file__).resolve().parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    assert f"Read in Ollama {READ_VERSION}," in page
    table = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") >= 5][-len(ROWS) :]
    for line, row in zip(table, ROWS, strict=True):
        assert line.startswith("| " + ", ".join(f"`{name}`" for name in row.model_types) + " |")
        assert line.endswith(f"| `{row.rendering.renderer}` | `{row.rendering.parser}` |")
