# SPDX-License-Identifier: Apache-2.0
"""Which tokens of a sample count in the loss, and how much: --loss-on, --turn-weights and --empty-thoughts."""

from collections.abc import Mapping
from dataclasses import dataclass

from mebp.errors import Error
from mebp.words import listed

ASSISTANT, LAST, ALL, TURNS = "assistant", "last", "all", "turns"
LOSS_ON = (ASSISTANT, LAST, ALL, TURNS)
SKIP, LEARN = "skip", "learn"
EMPTY_THOUGHTS = (SKIP, LEARN)


@dataclass(frozen=True)
class Counting:
    """As it was asked for; None has the default."""

    loss_on: str | None = None
    weighs: bool = False  # whether the data's weights multiply
    empty_thoughts: str | None = None

    @classmethod
    def read(cls, loss_on: str | None, turn_weights: bool | None, empty_thoughts: str | None) -> "Counting":
        """Raises mebp.Error for a value that there is not."""
        for option, value, values in (
            ("--loss-on", loss_on, LOSS_ON),
            ("--empty-thoughts", empty_thoughts, EMPTY_THOUGHTS),
        ):
            if value is not None and value not in values:
                raise Error(f"{option} is '{value}'; choose {listed(values)}")
        return cls(loss_on, bool(turn_weights), empty_thoughts)

    @property
    def on(self) -> str:
        return self.loss_on or ASSISTANT

    @property
    def learns_empty_thoughts(self) -> bool:
        return self.empty_thoughts == LEARN

    @property
    def asked(self) -> Mapping[str, str]:
        """The options that were given, with their values, as they are typed."""
        values = {"--loss-on": self.loss_on, "--empty-thoughts": self.empty_thoughts}
        given = {option: f"{option} {value}" for option, value in values.items() if value is not None}
        return given | ({"--turn-weights": "--turn-weights"} if self.weighs else {})

    def description(self) -> Mapping[str, object]:
        """What a resumed run must have in common; None for the defaults, which older states do not have."""
        return {
            "--loss-on": None if self.on == ASSISTANT else self.on,
            "--turn-weights": self.weighs or None,
            "--empty-thoughts": LEARN if self.learns_empty_thoughts else None,
        }

    def __str__(self) -> str:
        """The same for all that count the same."""
        return ",".join(f"{option}={value}" for option, value in self.description().items() if value is not None)


AS_USUAL = Counting()
