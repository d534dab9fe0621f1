#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a build took, by folder: seconds of all its commands, one after the other, and how many there were.

    scripts/build_times.py [BUILD]    (default: build)

They are ninja's, from the log of the build folder: of what was built last, with ccache where it had it. A folder's
commands go on side by side, so a build is shorter than their sum.
"""

import re
import sys
from collections import Counter
from pathlib import Path

# build/FOLDER/CMakeFiles/TARGET.dir/PATH.cpp.o; what else there is lies in FOLDER.
_OBJECT = re.compile(r"(?:(?P<folder>.*)/)?CMakeFiles/[^/]+\.dir/(?P<path>.*)")


def read_log(log: Path) -> dict[str, float]:
    """The seconds of each command by one of its outputs; of an output that was made again, the last time."""
    commands = {}
    for line in log.read_text().splitlines()[1:]:
        start, end, _, output, command = line.split("\t")
        commands[command, start] = output, (int(end) - int(start)) / 1000
    return dict(commands.values())


def folder_of(output: str, build: Path) -> str:
    """Two levels of the source tree; of what is generated or linked, of the build's."""
    path = output.removeprefix(f"{build.resolve()}/")
    if inside := _OBJECT.fullmatch(path):
        path = "/".join(part for part in (inside["folder"], inside["path"]) if part)
    return "/".join(path.split("/")[:-1][:2]) or "."


def main(build: Path) -> None:
    seconds, commands = Counter(), Counter()
    for output, taken in read_log(build / ".ninja_log").items():
        seconds[folder_of(output, build)] += taken
        commands[folder_of(output, build)] += 1
    for folder, taken in seconds.most_common():
        print(f"{taken:8.1f} s {commands[folder]:5} {folder}")
    print(f"{seconds.total():8.1f} s {commands.total():5} in all")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else "build"))
