# SPDX-License-Identifier: Apache-2.0
"""What a step of a session gives."""

from dataclasses import dataclass, replace

from mebp.words import counted


@dataclass(frozen=True, repr=False)
class StepResult:
    """What one optimizer step did."""

    loss: float  # mean over the labels that count, of all micro-batches together, before the update
    grad_norm: float  # L2 over all trainables, before clipping and the update; with MeZO the slope along its direction
    tokens: int  # labels that count
    seconds: float
    peak_bytes: int  # the highest anonymous and written memory of this process that the session has seen
    written_bytes: int = 0  # by this step, into the file in the session's spill_folder

    def of(self, loss: float, tokens: int, seconds: float) -> "StepResult":
        """The same of a step over sequences, of which the session knows the update alone."""
        return replace(self, loss=loss, tokens=tokens, seconds=seconds)

    def __repr__(self) -> str:
        return (
            f"StepResult(loss {self.loss:.4f}, grad_norm {self.grad_norm:.3g}, {counted(self.tokens, 'token')} in "
            f"{self.seconds:.3g} s, peak {self.peak_bytes / 1e6:.1f} MB)"
        )
