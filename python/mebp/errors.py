# SPDX-License-Identifier: Apache-2.0
"""The one exception that this package raises on purpose."""


class Error(Exception):
    """What went wrong, in one line that names the thing and says what to do; the command line prints the same line."""

    def __init__(self, message: object) -> None:
        super().__init__(" ".join(str(message).split()))


def first_line(error: BaseException) -> str:
    """What a library's error says, without the pages that often follow."""
    lines = str(error).strip().splitlines()
    return lines[0].strip(" .") if lines else type(error).__name__
