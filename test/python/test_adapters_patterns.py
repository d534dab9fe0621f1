# SPDX-License-Identifier: Apache-2.0
"""Patterns of layers' names in an adapter_config.json: as PEFT matches them, or refused by name."""

import ast
import json
import random
import re
import time
from pathlib import Path

import numpy as np
import pytest

from mebp.adapters.adapter import Adapter, Layer
from mebp.adapters.patterns import LayerPatterns
from mebp.adapters.peft import CONFIG, read_peft, write_peft
from mebp.errors import Error

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ["model.layers.0.self_attn.q_proj", "model.layers.11.mlp.up_proj", "lm_head"]
USUAL = ["q_proj", r"layers\.11\.mlp\.up_proj", "^model.layers.0.self_attn.q_proj", r"model\.layers\.(0|1)\..*",
         r".*\.[qk]_proj", r"layers\.\d+\.mlp\.(up|down)_proj$", "(?:lm_head)?", "", "[^.]+_head", "lm_head|q_proj",
         "h_head|^lm", ".+?_proj", "head"]  # fmt: skip
KINDS = ("only names, '.', '*', '+', '?', '|', classes, and groups without a repetition inside a repetition are read; "
         "name the layers by such ones")  # fmt: skip


def in_python(pattern: str, name: str) -> bool:
    return re.fullmatch(rf"(.*\.)?({pattern})", name) is not None


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_match_as_in_peft(pattern):
    found = [LayerPatterns("file: key", [pattern]).first_match(name) == pattern for name in LAYERS]
    assert found == [in_python(pattern, name) for name in LAYERS]


def test_random_patterns_match_as_python_does():
    choose, tried = random.Random(1), 0
    pieces = ["a", "b", ".", "*", "|", "(", ")", "[ab]", "[^a.]", r"\.", r"\w", "?", "+", "^", "$", "(?:"]
    for _ in range(4000):
        pattern = "".join(choose.choice(pieces) for _ in range(choose.randint(1, 8)))
        try:
            patterns = LayerPatterns("file: key", [pattern])
        except Error:
            continue
        for _ in range(6):
            name = "".join(choose.choice("ab.") for _ in range(choose.randint(0, 7)))
            assert (patterns.first_match(name) is not None) == in_python(pattern, name), (pattern, name)
            tried += 1
    assert tried > 1000


def test_the_first_pattern_counts():
    patterns = LayerPatterns("file: key", ["up_proj", r".*_proj", "q_proj"])
    assert [patterns.first_match(name) for name in LAYERS] == [".*_proj", "up_proj", None]


@pytest.mark.parametrize(
    ("pattern", "has"),
    [
        ("(a+)+$", "a repetition inside a repetition"),
        ("((a|b*)c)*", "a repetition inside a repetition"),
        ("(a?)*", "a repetition inside a repetition"),
        ("a{2}", "'{2}'"),
        (r"(a)\2", r"'\2'"),
        ("(?=a)b", "'?=a)b'"),
        ("a)", "')'"),
        ("(a", "a group that does not end"),
        ("*", "'*'"),
        ("[z-a]", "'[z-a]'"),
        ("[a", "'[a'"),
    ],
)
def test_others_are_refused(pattern, has):
    with pytest.raises(Error, match=re.escape(f"file: key: pattern '{pattern}' has {has}, and {KINDS}")):
        LayerPatterns("file: key", [pattern])


def test_no_more_and_no_longer_ones_than_are_read():
    LayerPatterns("file: key", ["a" * 500] * 200)
    with pytest.raises(Error, match="^file: key has 201 patterns, and 200 at most are read; name most layers by fewer"):
        LayerPatterns("file: key", ["a"] * 201)
    with pytest.raises(Error, match=r"^file: key: pattern 'a{50}\.\.\.' has 501 characters, and 500 at most are "):
        LayerPatterns("file: key", ["a" * 501])


@pytest.mark.parametrize("pattern", [".*." * 160, "(a|a)" * 99])
def test_nothing_takes_longer_than_a_second(pattern):
    started = time.thread_time()
    names = [f"model.layers.{number}." + "a" * 300 + "." for number in range(300)]
    try:
        patterns = LayerPatterns("file: key", [f"{pattern}{number}" for number in range(150)])
        assert not any(patterns.first_match(name) for name in names)
    except Error as error:
        assert str(error) == (
            "file: key has patterns that take more than 1 s; name the layers in fewer and simpler ones"
        )
    assert time.thread_time() - started < 2


def test_many_names_are_matched_in_time():
    names = [f"model.layers.{layer}.mlp.{which}_proj" for layer in range(100) for which in ("up", "down", "gate")]
    patterns = LayerPatterns("file: key", names[:200])
    assert [patterns.first_match(name) for name in names] == names[:200] + [None] * 100


def saved(folder: Path, **fields: object) -> Path:
    a, b = np.ones((2, 8), np.float32), np.ones((8, 2), np.float32)
    folder.mkdir()
    write_peft(Adapter(folder, {name: Layer(a, b, 1.0) for name in LAYERS}, "base"), folder)
    file = folder / CONFIG
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))
    return folder


def test_a_hostile_pattern_is_refused_with_file_and_key(tmp_path):
    folder = saved(tmp_path / "adapter", alpha_pattern={"(.*a){20}|((a|a)*)*": 4})
    with pytest.raises(Error, match=re.escape(f"{folder / CONFIG}: alpha_pattern: pattern '(.*a)")):
        read_peft(folder)


def test_what_is_not_matched_takes_no_time(tmp_path):
    """Tensors have their ranks, and are those of the modules that are meant."""
    hostile = "(.*.*)*" * 50 + "$"
    others = ("exclude_modules", "layers_pattern")
    folder = saved(tmp_path / "adapter", rank_pattern={hostile: 4}, **dict.fromkeys(others, hostile))
    started = time.thread_time()
    assert {layer.rank for layer in read_peft(folder).layers.values()} == {2}
    assert time.thread_time() - started < 1


def test_nobody_else_s_text_becomes_a_regular_expression():
    """In Python a pattern is ours; C++ has none, for std::regex goes deeper with each character."""
    for file in ROOT.glob("python/mebp/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in MATCHING:
                assert is_ours(node.args[0]), f"{file}:{node.lineno}: {ast.unparse(node)}"
    sources = [file for folder in ("runtime", "compiler", "format", "tools", "dialects")
               for file in (ROOT / folder).rglob("*") if file.suffix in (".cpp", ".h")]  # fmt: skip
    assert len(sources) > 300
    assert not [file for file in sources if "<regex>" in file.read_text(encoding="utf-8")]


MATCHING = {f"re.{name}" for name in ("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall",
                                      "finditer")}  # fmt: skip
# What a pattern may hold beside text: our own constants, options' own names, classes of characters that data/cuts.py
# chooses of its own, and what is escaped.
OURS = {"label", "before", "after", "line_end", "at_line", "flag(other)", "'|'.join([*own, _HOMES])"}


def is_ours(pattern: ast.expr) -> bool:
    if isinstance(pattern, ast.JoinedStr):
        parts = [ast.unparse(each.value) for each in pattern.values if isinstance(each, ast.FormattedValue)]
        # A name in capitals is a constant of a module.
        return all(part in OURS or part.strip("_").isupper() or part.startswith("re.escape(") for part in parts)
    # `text` of adapters/patterns.py is one class, for one character; transformers' classes have patterns of their own.
    # `text` of judging/checks.py is what whoever asks a question has written to judge its answer by.
    named = ast.unparse(pattern)
    return isinstance(pattern, ast.Constant) or named in ("text", "of_transformers") or named.strip("_").isupper()
