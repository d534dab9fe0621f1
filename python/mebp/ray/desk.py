# SPDX-License-Identifier: Apache-2.0
"""What the caller of fit and its workers tell one another: an actor of Ray's, which outlives every start of theirs."""


class Desk:
    """One call at a time."""

    def __init__(self) -> None:
        self._starts = 0
        self._has_stepped = self._is_stopping = False
        self._lines: list[tuple[str, bool]] = []
        self._refusals: dict[int, str] = {}

    def begin(self) -> tuple[int, bool]:
        """Of rank 0, at each start: how many there were before, and whether a step has been made in one of them."""
        self._starts += 1
        return self._starts - 1, self._has_stepped

    def step(self) -> bool:
        """Of rank 0, after each step: whether the caller asks to stop."""
        self._has_stepped = True
        return self._is_stopping

    def stop(self) -> None:
        self._is_stopping = True

    def say(self, line: str, error: bool) -> None:
        self._lines.append((line, error))

    def take_lines(self) -> list[tuple[str, bool]]:
        """Those since the last call, and whether each is for standard error."""
        taken, self._lines = self._lines, []
        return taken

    def refuse(self, rank: int, line: str) -> None:
        """What another start would not change."""
        self._refusals[rank] = line

    def refusal(self) -> str | None:
        """The lowest rank's."""
        return self._refusals[min(self._refusals)] if self._refusals else None

    def restarts(self) -> int:
        return max(0, self._starts - 1)
