# SPDX-License-Identifier: Apache-2.0
"""Writes what packages say of options from the tables that have them: `make docs`, or python docs/write_options.py.

From runtime/train/option_table.h, of a session:
- python/mebp/session.py: the arguments of Session, and their lines of its docstring
- packages/android/.../SessionOptions.kt and packages/swift/.../SessionOptions.swift
From format/options.h, of a compilation, those that mebpc hands on as they stand:
- python/mebp/compiler.py: the arguments of compile, and their lines of its docstring
- python/mebp/compile_options.py: the fields of CompileOptions, which are options of mebp train
"""

import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mebp.extension import load_runtime
from mebp.remote_adapters import adapter_kinds

ROOT = Path(__file__).resolve().parents[1]
_WIDTH = 120
_HEADER = "written by docs/write_options.py (make docs) from runtime/train/option_table.h; do not edit"
_POSITIONAL = ("device", "threads", "optimizer", "lr")  # in Python, as docs/python.md has them


class Option(NamedTuple):
    called: str  # on a command line
    field: str  # in mebp.h
    kind: str
    help: str
    standard: str

    @property
    def python(self) -> str:
        return _underscored(self.called)

    @property
    def camel(self) -> str:
        """In Kotlin and Swift."""
        return _camel("device" if self.field == "backend" else self.field)

    @property
    def says(self) -> str:
        return _with_default(self.help, self.standard)

    @property
    def may_lack(self) -> bool:
        """In Kotlin and Swift, whether it may have no value."""
        return self.kind != "flag" and self.field != "optimizer" and not (self.kind == "number" and self.standard)


def _underscored(name: str) -> str:
    return name.replace("-", "_")


def _with_default(help: str, standard: str) -> str:
    return help + (f" (default: {standard})" if standard else "")


def _number(text: str) -> str:
    """As a literal of a number with a point."""
    return text if "e" in text else str(float(text))


def _camel(name: str) -> str:
    return re.sub("_(.)", lambda match: match[1].upper(), name)


def options() -> list[Option]:
    return [Option(*row) for row in load_runtime().session_options()]


def python_arguments(rows: list[Option]) -> str:
    def typed(row: Option) -> str:
        if row.kind == "flag":
            # None: as the optimizer has it.
            return "bool | None = None" if row.field == "return_gradients" else "bool = False"
        if row.kind == "number" and row.standard:
            return f"float = {_number(row.standard)}"
        if row.called == "device":
            return f'str = "{row.standard}"'
        kinds = {"count": "int", "number": "float", "size": "int | str", "path": "str | os.PathLike[str]"}
        return f"{kinds.get(row.kind, 'str')} | None = None"

    known = {row.python: f"        {row.python}: {typed(row)},\n" for row in rows}
    first = [known.pop(name) for name in _POSITIONAL]
    return "".join([*first, "        *,\n", *known.values()])


def python_lines(rows: list[Option]) -> str:
    return "".join(_line(row.python, row.says, 8) for row in rows)


def python_session(rows: list[Option]) -> str:
    text = (ROOT / "python/mebp/session.py").read_text()
    text = _between(text, "        path: str | os.PathLike[str],\n", "        stream: object", python_arguments(rows))
    return _between(text, "Its options, by docs/write_options.py:\n", "\n        Beside them:", python_lines(rows))


class Compiled(NamedTuple):
    """An option of a compilation."""

    name: str
    value: str  # what a command line calls it
    help: str
    standard: str

    @property
    def python(self) -> str:
        return _underscored(self.name)

    @property
    def says(self) -> str:
        return _with_default(self.help, self.standard)

    @property
    def type(self) -> str:
        return {"": "bool", "X": "float"}.get(self.value, "int")


def compiled() -> list[Compiled]:
    return [Compiled(*row) for row in load_runtime().compile_options()]


def python_compile(rows: list[Compiled]) -> str:
    text = (ROOT / "python/mebp/compiler.py").read_text()
    # The adapter's own are its class's.
    rows = [row for row in rows if row.name not in {name for kind in adapter_kinds() for name in kind.options}]
    arguments = "".join(
        f"    {row.python}: " + ("bool = False,\n" if row.type == "bool" else f"{row.type} | None = None,\n")
        for row in rows
    )
    text = _between(text, "    seed: int = 0,\n", ") -> None:", arguments)
    lines = "".join(_line(row.python, row.says, 4) for row in rows)
    return _between(text, "as it stands, by docs/write_options.py:\n", "\n    Raises", lines)


def python_compile_options(rows: list[Compiled]) -> str:
    text = (ROOT / "python/mebp/compile_options.py").read_text()
    fields = "".join(f"    {row.python}: {row.type} | None = None\n" for row in rows)
    return _between(text, "as they stand, by docs/write_options.py.\n", "\n    @staticmethod", fields)


def _line(name: str, says: str, indent: int) -> str:
    """Of a docstring."""
    first, rest = " " * indent, " " * (indent + 4)
    filled = textwrap.fill(
        f"{name}: {says}", _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return filled + "\n"


def _between(text: str, before: str, behind: str, new: str) -> str:
    begin = text.index(before) + len(before)
    return text[:begin] + new + text[text.index(behind, begin) :]


class Language(NamedTuple):
    """How fields are declared."""

    nothing: str  # the value of one that has none
    types: dict[str, str]  # of each kind
    field: Callable[[str, str, str], str]  # of name, type and value
    comment: Callable[[str], str]


_KOTLIN = Language(
    "null",
    {"flag": "Boolean", "count": "Int", "number": "Double", "size": "Long", "path": "String", "choice": "String"},
    lambda name, kind, value: f"    val {name}: {kind} = {value},\n",
    lambda text: textwrap.fill(f"/** {text} */", _WIDTH, initial_indent="    ", subsequent_indent="     * ") + "\n",
)
_SWIFT = Language(
    "nil",
    {"flag": "Bool", "count": "UInt32", "number": "Double", "size": "UInt64", "path": "String", "choice": "String"},
    lambda name, kind, value: f"  public var {name}: {kind}" + ("" if value == "nil" else f" = {value}") + "\n",
    lambda text: textwrap.fill(text, _WIDTH, initial_indent="  /// ", subsequent_indent="  /// ") + "\n",
)
# What only some optimizers have and still has a field of its own: others are in optimizerOptions.
_OWN = ("beta1", "beta2", "epsilon", "momentum")


def _declarations(rows: list[Option], language: Language, optimizer: str) -> str:
    def declared(row: Option) -> str:
        comment = language.comment(row.says[0].upper() + row.says[1:] + ".")
        if row.field == "optimizer":
            return comment + language.field("optimizer", "Optimizer", optimizer)
        kind = language.types[row.kind]
        if row.may_lack:
            return comment + language.field(row.camel, f"{kind}?", language.nothing)
        return comment + language.field(row.camel, kind, "false" if row.kind == "flag" else _number(row.standard))

    number = language.types["number"] + "?"
    own = [language.field(name, number, language.nothing) for name in _OWN]
    says = language.comment(f"Of the optimizers that have them; {language.nothing}: the optimizer's own.")
    return "".join([*map(declared, rows), says, *own])


def _texts(rows: list[Option], pair: Callable[[Option], str]) -> str:
    own = [Option(name, name, "number", "", "") for name in _OWN]
    return "".join(map(pair, [*rows, *own]))


def _optimizers() -> list[str]:
    return [name for name, _ in load_runtime().optimizers()]


def kotlin(rows: list[Option]) -> str:
    def pair(row: Option) -> str:
        text = f'{row.camel}?.let {{ "${{it}}B" }}' if row.kind == "size" else row.camel
        return f'            "{row.field}" to {"optimizer.text" if row.field == "optimizer" else text},\n'

    texts = _texts(rows, pair)
    names = ", ".join(f'{name.upper()}("{name}")' for name in _optimizers())
    return f"""\
// SPDX-License-Identifier: Apache-2.0
// {_HEADER}
package org.mebp

enum class Optimizer(internal val text: String) {{
{textwrap.fill(names, _WIDTH, initial_indent="    ", subsequent_indent="    ")}
}}

/** What mebp.h calls mebp_session_options, with its defaults. */
data class SessionOptions(
{_declarations(rows, _KOTLIN, "Optimizer.ADAMW")}\
    /** Others that the optimizer has of its own, by their names on command lines: numbers, or text such as "svd". */
    val optimizerOptions: Map<String, Any> = emptyMap()
) {{
    /** Name, text, name, text: of what is not null. */
    internal fun texts(): Array<ByteArray> {{
        val known = listOf<Pair<String, Any?>>(
{texts.removesuffix(chr(10)).removesuffix(",")}
        )
        val given = (known + optimizerOptions.toList()).filter {{ it.second != null }}
        return given.flatMap {{ (name, value) -> listOf(name, "$value") }}.map {{ Native.ended("option", it) }}
            .toTypedArray()
    }}
}}
"""


def swift(rows: list[Option]) -> str:
    def pair(row: Option) -> str:
        text = f"{row.camel}.map {{ String($0) }}" if row.may_lack else f"String({row.camel})"
        if row.field == "optimizer":
            text = "optimizer.rawValue"
        elif row.kind in ("path", "choice"):
            text = row.camel
        elif row.kind == "size":
            text = f'{row.camel}.map {{ "\\($0)B" }}'
        return f'      ("{row.field}", {text}),\n'

    names = ", ".join(_optimizers())
    return f"""\
// SPDX-License-Identifier: Apache-2.0
// {_HEADER}
import CMebp
import Foundation

/// What mebp.h calls mebp_session_options, with its defaults.
public struct SessionOptions: Sendable {{
  public enum Optimizer: String, Sendable {{
    case {names}
  }}

{_declarations(rows, _SWIFT, ".adamw")}\
  /// Others that the optimizer has of its own, by their names on command lines, as text: ["betas": "0.9,0.99"].
  public var optimizerOptions: [String: String] = [:]

  public init() {{}}

  /// Of what is not nil.
  private var texts: [(name: String, text: String)] {{
    let known: [(String, String?)] = [
{_texts(rows, pair)}\
    ]
    let given = known.compactMap {{ name, text in text.map {{ (name, $0) }} }}
    return given + optimizerOptions.map {{ ($0.key, $0.value) }}
  }}

  func withC<Result>(_ body: (UnsafePointer<mebp_session_options>) throws -> Result) throws -> Result {{
    var options = mebp_session_options()
    mebp_session_options_init(&options)
    var held: [UnsafeMutablePointer<CChar>] = []  // paths stay ours until the body has ended
    defer {{ held.forEach {{ free($0) }} }}
    for (name, text) in texts {{
      _ = try checkText("option", name + text)
      let value = strdup(text)!
      held.append(value)
      try check {{ mebp_session_options_set(&options, name, value, $0) }}
    }}
    return try body(&options)
  }}
}}
"""


def written() -> dict[Path, str]:
    """Each file, and what it has to be."""
    rows = options()
    return {
        ROOT / "python/mebp/session.py": python_session(rows),
        ROOT / "python/mebp/compiler.py": python_compile(compiled()),
        ROOT / "python/mebp/compile_options.py": python_compile_options(compiled()),
        ROOT / "packages/android/mebp/src/main/kotlin/org/mebp/SessionOptions.kt": kotlin(rows),
        ROOT / "packages/swift/Sources/Mebp/SessionOptions.swift": swift(rows),
    }


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text)
