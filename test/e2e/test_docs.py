# SPDX-License-Identifier: Apache-2.0
"""docs/cli.md says what the commands say."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "write_cli.py"


@pytest.fixture(scope="module")
def writer():
    specification = importlib.util.spec_from_file_location("write_cli", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_page_is_as_the_commands_are(writer):
    assert writer.PAGE.read_text(encoding="utf-8") == writer.page(), "run make docs"


@pytest.mark.parametrize(
    ("line", "name", "help", "required"),
    [
        (("-o,--output TEXT", "the bundle"), "-o TEXT, --output TEXT", "the bundle", False),
        (("--seq-len INT:INT in [1 - 9]", "length (all)"), "--seq-len INT", "length (all; from 1 to 9)", False),
        (("--weights TEXT=int4", "int4 or f32"), "--weights TEXT", "int4 or f32 (int4)", False),
        (("--emit TEXT:{nn,train}", "stop"), "--emit nn|train", "stop", False),
        (("--lora-targets TEXT=[all-linear] ...", "layers"), "--lora-targets TEXT", "layers (all-linear)", False),
        (("--steps UINT:POSITIVE=50", "steps"), "--steps UINT", "steps (50)", False),
        (("--tokens TEXT REQUIRED", "ids"), "--tokens TEXT", "ids", True),
        (("--resume Needs: --state", "go on"), "--resume", "go on", False),
        (("--size INT=1 Excludes: --a --b", "rows"), "--size INT", "rows (1)", False),
        (("--budget TEXT Excludes: --size", "bytes"), "--budget TEXT", "bytes", False),
        (("model TEXT REQUIRED", "a file"), "MODEL", "a file", True),
    ],
)
def test_how_help_is_read(writer, line, name, help, required):
    assert writer._parse_entry(line) == writer.Option(name, help, required)


def test_long_names_have_a_line_of_their_own(writer):
    text = (
        "About.\nOptions:\n"
        "  --short INT                 one\n"
        "  --of-just-this-length INT=8 two\n"
        "  --longer-than-that INT:INT in [1 - 5]\n"
        "                              three\n"
        "  --bare\n"
    )
    assert list(writer._entries(text)) == [
        ("--short INT", "one"),
        ("--of-just-this-length INT=8", "two"),
        ("--longer-than-that INT:INT in [1 - 5]", "three"),
        ("--bare", ""),
    ]
