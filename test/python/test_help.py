# SPDX-License-Identifier: Apache-2.0
"""mebp --help: a screen, on which no command is missing."""

import re

import pytest

from mebp.cli.main import main, make_parsers


def test_it_fits_a_screen_and_names_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    named = re.findall(r"\b[a-z]+\b", "\n".join(line[2:] for line in lines if line.startswith("  ")))
    assert make_parsers().keys() <= set(named)


def test_what_people_need_first_comes_first(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    first = lines.index("to begin with:") + 1
    assert [line.split()[0] for line in lines[first : first + 5]] == ["train", "eval", "chat", "generate", "merge"]
