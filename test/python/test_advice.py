# SPDX-License-Identifier: Apache-2.0
"""What a message tells people to give, the command that says so has, or the message names the one that has it."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mebp.cli.main import make_parsers
from mebp.compile_options import CompileOptions, flag, refuse_of_mebpc
from mebp.errors import Error
from mebp.tools import find_tool
from mebp.training.request import request_kinds

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "mebp"
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*\w")
NAMES_A_COMMAND = re.compile(
    r"\bmebpc|\bmebp-run|\bmebp ([a-z]+ |$)|\bcompiled? |\bcommands that |tensorboard|"
    r"llama-gguf-split|llama-server|\bollama "
)
# Which commands print what a file or a folder says; of others, one of those that have an option in the message.
PRINTING = {"training": ["train"], "building": ["train"], "rewards": ["train"], "exporter": ["export", "train"],
            "gguf": ["export", "train"], "using": ["chat", "generate", "eval", "merge"]}  # fmt: skip
COMPILER = ("compiler", "tools/mebpc", "format")
# mebpc names these to those who gave them, or says what a model or a part of its plan is for.
GIVEN_TO_MEBPC = {"--output", "--check-options", "--version", "--task", "--in-flight", "--split", "--device-first",
                  "--device-last", "--explain-wire", "--emit", "--plan-json", "--plan-only", "--max-seq-for",
                  "--frontier", "--value-adapter", "--shape-only", "--explain-peak", "--train-tokens"}  # fmt: skip


@cache
def options() -> dict[str, set[str]]:
    found = {command: set(parser._option_string_actions) for command, parser in make_parsers().items()}
    for tool in ("mebpc", "mebp-run"):
        said = subprocess.run([find_tool(tool), "--help"], capture_output=True, text=True, check=True).stdout
        found[tool] = {"--help", *re.findall(r"^  (?:-\w,)?(--[a-z][\w-]+)", said, re.MULTILINE)}
    return found


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Each text in a file of Python that is no docstring, with its line; what is filled in is {}."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in ast.walk(node) if part is not node}
            yield (
                node.lineno,
                "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def lacking(path: Path) -> Iterator[str]:
    folder, *rest = path.relative_to(PACKAGE).parts
    commands = (
        [path.stem]
        if folder == "cli" and path.stem in options()
        else PRINTING.get(path.stem, PRINTING.get(folder if rest else ""))
    )
    for line, text in messages(path):
        for match in OPTION.finditer(text):
            before, having = text[: match.start()], [name for name in options() if match[0] in options()[name]]
            if NAMES_A_COMMAND.search(before) or not before.strip():  # given by the user, or the option itself
                continue
            if not having or not all(command in having for command in commands or ()):
                yield f"{path.relative_to(ROOT)}:{line}: {match[0]} in {text!r}"


def test_the_package_advises_what_there_is():
    found = [each for path in sorted(PACKAGE.rglob("*.py")) for each in lacking(path)]
    assert not found, "\n".join(found)


def test_the_compiler_advises_what_mebpc_and_train_have():
    named = {name: flag(own)[2:] for own in CompileOptions.__dataclass_fields__
             for name in CompileOptions.named_by_mebpc({own: None})}  # fmt: skip
    here = {flag(name): f"--{own}" for name, own in named.items()}
    missing = []
    for path in sorted(path for folder in COMPILER for path in (ROOT / folder).rglob("*.cpp")):
        source = re.sub(r'"\s+"', "", path.read_text(encoding="utf-8"))  # parts of one text, over lines
        for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"', source):
            for match in OPTION.finditer(text):
                option, told = match[0], re.search(r"mebp [a-z]+ |mebp-run", text[: match.start()])
                known = option in options()["mebpc"] and here.get(option, option) in options()["train"]
                if not (told or known or option in GIVEN_TO_MEBPC):
                    missing.append(f"{path.relative_to(ROOT)}: {option} in {text!r}")
    assert not missing, "\n".join(missing)
    assert {here["--adapter"], here["--seed"]} == {"--adapter-kind", "--adapter-seed"}


def test_train_takes_all_of_mebpc_or_says_how_it_is_asked():
    named = CompileOptions.named_by_mebpc(dict.fromkeys(request_kinds()))
    for option in sorted(options()["mebpc"] - {"--help", "--version", "--output"}):
        name = option[2:].replace("-", "_")
        if name in named:
            continue
        with pytest.raises(Error) as caught:
            refuse_of_mebpc(name)
        assert str(caught.value).startswith(f"{option} ")
        asked = OPTION.findall(str(caught.value).split(" then ")[-1])
        assert set(asked) <= options()["mebpc"] | options()["train"]
