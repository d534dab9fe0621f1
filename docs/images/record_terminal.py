# SPDX-License-Identifier: Apache-2.0
"""Draws what a command shows on a terminal as SVG: record_terminal.py PICTURE.svg [--until TEXT] -- COMMAND...

The command runs to its end; with --until, the picture is of the moment in which TEXT first stood on the screen.
"""

import argparse
import codecs
import fcntl
import io
import os
import pty
import re
import shlex
import struct
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.text import Text

COLUMNS, ROWS = 128, 40
# Pictures in a page load no fonts: the reader's own serves. Some viewers drop spaces unless told to keep them.
SVG = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")
SVG = re.sub("<!--.*?-->\\s*", "", SVG).replace("<svg ", '<svg xml:space="preserve" ', 1)


class Screen:
    """As much of a terminal as a progress bar needs: its lines can be gone back to and cleared."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = 0

    def feed(self, output: str) -> None:
        for part in re.findall(r"\x1b\[[\d;?]*[A-Za-z]|\r\n|[\r\n]|[^\x1b\r\n]+", output):
            if part.endswith("\n"):
                self._row += 1
                self.lines += [""] * (self._row + 1 - len(self.lines))
            elif part == "\x1b[2K" or part == "\r":  # rich clears a line before it writes it anew
                self.lines[self._row] = ""
            elif part.startswith("\x1b[") and part.endswith("A"):
                self._row = max(0, self._row - int(part[2:-1] or 1))
            elif not part.startswith("\x1b[") or part.endswith("m"):
                self.lines[self._row] += part


def output_of(command: list[str]) -> Iterator[str]:
    """What the command writes to a terminal of this size, as it comes; raises SystemExit where it fails."""
    process, terminal = pty.fork()
    if process == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execvp(command[0], command)
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while piece := os.read(terminal, 65536):
            yield decoder.decode(piece)
    except OSError:  # the terminal has gone with its command
        pass
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if status:
        sys.exit(f"{command[0]}: ended with status {status}")


def draw(command: list[str], lines: list[str], picture: Path) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print("$ " + shlex.join(command), style="bold", soft_wrap=False, highlight=False)
    for line in lines:
        console.print(Text.from_ansi(line))
    console.save_svg(str(picture), title="", code_format=SVG)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, metavar="PICTURE.svg")
    parser.add_argument("--until", metavar="TEXT")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    screen, chosen = Screen(), None
    for output in output_of(given.command):
        screen.feed(output)
        if chosen is None and given.until and any(given.until in Text.from_ansi(line).plain for line in screen.lines):
            chosen = list(screen.lines)
    if given.until and chosen is None:
        sys.exit(f"'{given.until}' never stood on the screen")
    lines = chosen or screen.lines
    while lines and not lines[-1].strip():
        lines.pop()
    draw(given.command, lines, given.picture)


if __name__ == "__main__":
    main()
