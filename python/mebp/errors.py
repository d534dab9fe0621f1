# SPDX-License-Identifier: Apache-2.0
"""The one exception that this package raises on purpose."""


class Error(Exception):
    """What went wrong, in one line that names the thing and says what to do; the command line prints the same line."""

    def __init__(self, message: object) -> None:
        super().__init__(" ".join(str(message).split()))
