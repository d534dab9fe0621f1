# SPDX-License-Identifier: Apache-2.0
"""Writes docs/ops.md and docs/passes.md from the .td files: `make docs`, or python docs/write_ir.py.

What mlir-tblgen prints is brought into the order of the sources, and said once where it is the same for most ops.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OPS, PASSES = ROOT / "docs" / "ops.md", ROOT / "docs" / "passes.md"
_DIALECTS = {"nn": "NN", "train": "Train", "exec": "Exec"}
_STAGES = ["import", "partition", "adapt", "autodiff", "keep", "rewrite", "split", "plan"]  # as in docs/architecture.md
_HEAD = "<!-- written by docs/write_ir.py (make docs) from {source}; do not edit -->\n# {title}\n\n{about}\n"
_ABOUT_OPS = """\
The three dialects of the compiler, from the mathematics of a model to its programs, each in the order of its `.td`
file. [architecture.md](architecture.md) says how they follow each other. Most ops are written alike, as in
`%y = nn.add(%a, %b) : (!x, !x) -> !x` where `!x = tensor<?x?x576xf32, #nn.tokens>`; the others show their syntax.

- *kernel*: computed at run time, by the kernel of the same name in [kernels.md](kernels.md)
- *differentiable*: has a gradient rule, in the `.cpp` of its subject in `dialects/nn`; an activation in its `.td`"""
_ABOUT_PASSES = """\
In the order of `compiler/pipeline/Pipeline.cpp`, a folder of `compiler/` each. `mebp-opt in.mlir --NAME` runs one,
`--NAME=OPTION=VALUE` with an option; [debugging.md](debugging.md) shows how to look in between."""
_COMMON_SYNTAX = "`(` operands `)` attr-dict `:` functional-type(operands, results)"
_TYPES = {
    "64-bit signless integer attribute": "64-bit integer",
    "32-bit signless integer attribute": "32-bit integer",
    "32-bit float attribute": "f32",
    "unit attribute": "flag",
}


def pages() -> dict[Path, str]:
    """What each page has to say."""
    return {OPS: _ops_page(), PASSES: _passes_page()}


def _tablegen(*arguments: str) -> str:
    llvm = "/usr/lib/llvm-22/bin"
    tool = shutil.which("mlir-tblgen", path=os.pathsep.join([llvm, os.environ["PATH"]]))
    if not tool:
        raise FileNotFoundError(f"mlir-tblgen is neither in {llvm} nor on PATH; run make setup")
    include = Path(tool).resolve().parents[1] / "include"
    command = [tool, "-I", str(include), "-I", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _ops_page() -> str:
    return _HEAD.format(source="dialects/*/*.td", title="Ops", about=_ABOUT_OPS) + "".join(map(_dialect, _DIALECTS))


def _read(source: str) -> str:
    return (ROOT / source).read_text(encoding="utf-8")


def _dialect(name: str) -> str:
    source = f"dialects/{name}/{_DIALECTS[name]}Ops.td"
    text = _tablegen("-gen-dialect-doc", f"-dialect={name}", str(ROOT / source))
    intro, _, rest = text.partition("[TOC]")
    ops, _, others = re.sub(r"(?s).*?## Operations\n", "", rest, count=1).partition("\n## ")
    summary, description = re.fullmatch(r"(?s).*?\n_(.*?)_\n(.*)", intro).groups()
    parts = [f"\n## {name}\n\n{_sentence(summary)}\n\n{description.strip()}\n"]
    declared = re.sub(rf'include "(dialects/{name}/\w+Ops\.td)"', lambda part: _read(part[1]), _read(source))
    for section, op in _in_order(ops, declared):
        if section:
            parts.append(f"\n### {section}\n")
        parts.append(_op(op))
    return "".join(parts) + _attributes_and_enums(others)


def _in_order(ops: str, declared: str) -> list[tuple[str, str]]:
    """The text of each op as its source has them, with the section of the source that it begins, or none."""
    blocks = re.split(r"\n(?=### `)", ops.strip())
    named = {re.match(r"### `\w+\.(\w+)`", block)[1]: block for block in blocks}
    # An activation's declaration makes its pullback, too.
    places = {name: [re.search(rf'<(?:\w+, )?"{each}"', declared) for each in (name, name.removesuffix("_gradient"))]
              for name in named}  # fmt: skip
    at = {name: (own or other).start() + (own is None) for name, (own, other) in places.items()}
    sections = [(found.start(), found[1]) for found in re.finditer(r"^//===- (.*?) -+===//$", declared, re.MULTILINE)]
    ordered, last = [], ""
    for name in sorted(named, key=at.get):
        section = next((title for start, title in reversed(sections) if start < at[name]), "")
        ordered.append((section if section != last else "", named[name]))
        last = section
    return ordered


def _op(block: str) -> str:
    name = re.match(r"### `(.*?)`", block)[1]
    summary = re.search(r"^_(.*)_$", block, re.MULTILINE)[1]
    body = block[block.index(f"_{summary}_") + len(summary) + 2 :]
    syntax = re.search(r"(?s)Syntax:\n\n```\noperation ::= (.*?)\n```\n", body)
    body = body.replace(syntax[0], "") if syntax else body
    description = re.split(r"\n(?:Traits:|Interfaces:|Effects:|#### )", body, maxsplit=1)[0].strip()
    kinds = [
        word
        for word, interface in (("kernel", "NN_KernelOpInterface"), ("differentiable", "DifferentiableOpInterface"))
        if f"`{interface}`" in body
    ]
    parts = [f"\n#### `{name}`\n\n{_sentence(summary)}{' *' + ', '.join(kinds) + '*' if kinds else ''}\n"]
    if description:
        parts.append(f"\n{description}\n")
    if syntax and not syntax[1].endswith(_COMMON_SYNTAX):
        parts.append(f"\n```\n{syntax[1].replace('`', '')}\n```\n")
    rows = _values(body, "Operand") + _values(body, "Result") + _attributes(body)
    if rows:
        parts.append(_table(["", "name", "type"], rows))
    return "".join(parts)


def _values(body: str, kind: str) -> list[list[str]]:
    table = re.search(rf"(?s)#### {kind}s:\n\n.*?\n\|.*?\n(.*?)(?:\n\n|\Z)", body)
    found = re.findall(r"^\| `(.*?)` \| (.*) \|$", table[1], re.MULTILINE) if table else []
    return [[kind.lower(), f"`{name}`", kind_of] for name, kind_of in found]


def _attributes(body: str) -> list[list[str]]:
    found = re.findall(r"<tr><td><code>(.*?)</code></td><td>.*?</td><td>(.*?)</td></tr>", body)
    return [["attribute", f"`{name}`", _TYPES.get(kind, kind.removesuffix(" attribute"))] for name, kind in found]


def _attributes_and_enums(text: str) -> str:
    parts = []
    for block in re.split(r"\n(?=### )", text)[1:]:
        name, summary = re.match(r"### (\w+)\n\n_(.*)_", block).groups()
        parts.append(f"\n#### `{name}`\n\n{_sentence(summary)}\n")
        cases = re.findall(r"^\| \w+ \| `\d+` \| (\w+) \|$", block, re.MULTILINE)
        if cases:
            parts.append(f"\nOne of {', '.join(f'`{case}`' for case in cases)}.\n")
        syntax = re.search(r"(?s)\n```\n.*?```\n", block)
        description = re.search(r"(?s)```\n\n(.*?)\n\n#### Parameters", block)
        parts += [syntax[0]] if syntax else []
        parts += [f"\n{description[1]}\n"] if description else []
    return "\n### Attributes\n" + "".join(parts) if parts else ""


def _passes_page() -> str:
    parts = [_HEAD.format(source="compiler/*/Passes.td", title="Passes", about=_ABOUT_PASSES)]
    for stage in _STAGES:
        source = ROOT / "compiler" / stage / "Passes.td"
        declared = source.read_text(encoding="utf-8")
        blocks = re.split(r"\n(?=### `)", _tablegen("-gen-pass-doc", str(source)))[1:]
        blocks.sort(key=lambda block: declared.index(f'"{re.match(r"### `-(.*?)`", block)[1]}"'))
        parts.append(f"\n## {stage}\n")
        parts += [_pass(block, declared) for block in blocks]
    return "".join(parts)


def _pass(block: str, declared: str) -> str:
    name, summary, body = re.fullmatch(r"(?s)### `-(.*?)`\n\n_(.*?)_\n\n?(.*)", block).groups()
    parts = re.split(r"#### (Options|Statistics)\n", body)
    tables = {}
    for title, listed in zip(parts[1::2], parts[2::2], strict=True):
        tables[title] = re.findall(r"^-?([\w-]+) +: (.*)$", listed, re.MULTILINE)
    text = f"\n### `{name}`\n\n{_sentence(summary)}\n"
    if parts[0].strip():
        text += f"\n{parts[0].strip()}\n"
    if options := tables.get("Options"):
        rows = [[f"`{option}`", _default(declared, option), meaning] for option, meaning in options]
        text += _table(["option", "default", "means"], rows)
    if statistics := tables.get("Statistics"):
        text += _table(["statistic", "counts"], [[f"`{counter}`", meaning] for counter, meaning in statistics])
    return text


def _default(declared: str, option: str) -> str:
    found = re.search(rf'(?<!List)Option<"\w+", "{option}", "[^"]*",\s*(?:/\*default=\*/)?"(.*?)"', declared)
    return f"`{_value(found[1])}`" if found and found[1] else ""


def _value(expression: str) -> str:
    """Of a default that stands in compiler/Options.h."""
    field = re.fullmatch(r"::mebp::(\w+)\(\)\.(\w+)", expression)
    if not field:
        return expression
    options = (ROOT / "compiler" / "Options.h").read_text(encoding="utf-8")
    return re.search(rf"(?s)struct {field[1]} \{{.*? {field[2]} = ([^,;]+)[,;]", options)[1]


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n" + "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
