# SPDX-License-Identifier: Apache-2.0
"""What docs/write_options.py writes is what the runtime's table has today."""

from support.scripts import load

WRITER = load("docs/write_options.py")


def test_what_is_written_is_current():
    old = [str(path.name) for path, text in WRITER.written().items() if path.read_text() != text]
    assert not old, "run make docs"


def test_no_help_is_said_twice():
    helps = [option.help for option in WRITER.options()]
    assert len(set(helps)) == len(helps)
