# SPDX-License-Identifier: Apache-2.0
"""What a card makes of names that come from elsewhere."""

import shlex
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from mebp.exporter.naming import title
from mebp.training import model_card
from mebp.training.markdown import code, table
from mebp.training.model_card import command_of
from mebp.training.options import TrainingOptions

HOSTILE = [
    "plain",
    "a`b",
    "``",
    "`",
    "```python",
    " a ",
    "<script>alert(1)</script>",
    "<!-- -->",
    "[x](javascript:alert(1))",
    "![x](http://x/y.png)",
    "a|b\\|c",
    "x\\",
    "$(rm -rf x) & \"'",
]


def rendered(text: str) -> list[tuple[str, str]]:
    """Type and content of what CommonMark and GitHub's tables make of it, all levels."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    flat = [child for token in tokens for child in (token, *(token.children or []))]
    return [(token.type, token.content) for token in flat]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_one_code_span(name):
    assert ("code_inline", name) in rendered(f"# An adapter for {code(name)}")
    kinds = {kind for kind, _ in rendered(f"begin {code(name)} end")}
    assert kinds <= {"paragraph_open", "inline", "text", "code_inline", "paragraph_close"}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_in_one_cell(name):
    found = rendered(table({"base model": code(name), "steps": "3"}))
    assert ("code_inline", name) in found
    assert sum(kind == "tr_open" for kind, _ in found) == 3 and sum(kind == "td_open" for kind, _ in found) == 4


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nb", "`a\\nb`"),
        ("a\r\n\n# b", "`a\\r\\n\\n# b`"),
        ("\x1b[2J", "`\\x1b[2J`"),
        ("a\u202eb\u2028c", "`a\\u202eb\\u2028c`"),
        ("", "` `"),
        (" ", "` `"),
    ],
)
def test_a_name_is_one_line(name, shown):
    assert code(name) == shown


@pytest.mark.parametrize("name", [*HOSTILE, "a\n---\nlicense: mit", "\U0001f600", "yes", "a: b", "\u2028"])
def test_the_front_holds_any_name(name):
    line = model_card._scalar(name)
    assert "\n" not in line and yaml.safe_load(f"base_model: {line}\nlibrary_name: peft") == {
        "base_model": name,
        "library_name": "peft",
    }


@pytest.mark.parametrize("base", ["owner/name", './a"b', "/models/```\nx.gguf", "packaged:smollm2", "./x`y`\n```\n# z"])
def test_the_code_holds_any_name(base):
    found = rendered(model_card._usage(base))
    (block,) = (content for kind, content in found if kind == "fence")
    compile(block, "card", "exec")
    assert not any(kind in ("heading_open", "html_inline", "html_block") for kind, _ in found)


@pytest.mark.parametrize(
    ("base", "public", "shown"),
    [
        ("owner/name@" + "a" * 40, "owner/name", f"`owner/name`, commit `{'a' * 40}`"),
        ("packaged:smollm2", "HuggingFaceTB/SmolLM2-135M-Instruct",
         "`packaged:smollm2`, a copy of `HuggingFaceTB/SmolLM2-135M-Instruct` in 4 bits"),
        ("/srv/models/gpt2", None, "`gpt2`"),
        ("./gpt2", None, "`gpt2`"),
    ],
)  # fmt: skip
def test_the_base_is_one_that_others_find(base, public, shown):
    assert model_card._public_name(base) == public
    assert model_card._base(base, title(base)) == shown
    opened = f"from_pretrained({public!r}" if public and "@" not in base else "from_pretrained("
    assert opened in model_card._usage(base) and "/srv" not in model_card._usage(base)


def test_a_command_says_nothing_of_a_home_folder(tmp_path, monkeypatch):
    home = tmp_path / "some body"
    monkeypatch.setenv("HOME", str(home))
    options = TrainingOptions(
        bundle=home / "a model",
        data=home / "it's.txt",
        objective="grpo",
        reward=[f"python {home}/judge.py", "rewards:length"],
        state=tmp_path / "state",
        optimizer_options={"betas": (0.9, 0.95)},
    )
    command = command_of(options)
    assert "some body" not in command
    words = shlex.split(command.replace("~/", f"{shlex.quote(str(home))}/", 2))
    assert words == ["mebp", "train", str(home / "a model"), "--data", str(home / "it's.txt"), "--objective", "grpo",
                     "--reward", "python ~/judge.py", "--reward", "rewards:length", "--betas", "0.9,0.95", "--state",
                     str(tmp_path / "state")]  # fmt: skip


def test_a_command_of_a_model_on_the_hub_is_what_was_asked():
    exact = Path("owner/name@" + "a" * 40)
    assert command_of(TrainingOptions(bundle=exact, data=Path("x.txt"))) == f"mebp train {exact} --data x.txt"
