# SPDX-License-Identifier: Apache-2.0
"""What a run leaves on the disk: its state and its adapters."""

from contextlib import suppress
from pathlib import Path

from mebp.session import Session
from mebp.training import state
from mebp.training.options import TrainingOptions
from mebp.training.standing import Standing

ADAPTER_FILES = "adapter_config.json", "adapter_model.safetensors"


def step_adapters(folder: Path) -> list[Path]:
    """What --keep all has left in `folder`."""
    return [file.parent for file in folder.glob("step-*/adapter_config.json")]


class Keeper:
    """Writes them, and knows of which step is what is there."""

    def __init__(self, options: TrainingOptions, session: Session, description: dict, standing: Standing) -> None:
        self._options, self._session, self._description, self._standing = options, session, description, standing
        self._kept: dict[str, tuple[int, Path]] = {}
        self._held = bool(options.adapter_out) and (options.adapter_out / ADAPTER_FILES[0]).exists()

    def go_on(self) -> None:
        """The state on the disk is the session's."""
        self._kept["the state"] = self._session.steps, self._options.state

    def begin_anew(self) -> None:
        """Removes what an earlier run left and this one would be mistaken for."""
        if self._options.state:
            state.discard(self._options.state)
        if self._options.adapter_out and self._options.keep == "all":
            for folder in step_adapters(self._options.adapter_out):
                for file in ADAPTER_FILES:
                    (folder / file).unlink(missing_ok=True)
                with suppress(OSError):  # something else is in it
                    folder.rmdir()

    def save_state(self) -> None:
        if self._options.state:
            state.save(self._session, self._options.state, self._description | {"standing": self._standing.stored()})
            self._kept["the state"] = self._session.steps, self._options.state

    @property
    def would_replace(self) -> bool:
        """Whether the adapter at the end takes the place of one that was there before the run."""
        if self._options.keep == "best" and self._standing.best_step:
            return False
        return self._held and self._options.keep != "all"

    def save_adapter(self, is_best: bool = False) -> Path | None:
        """At the end, or after an evaluation that was the best or not; returns where one was written, if one was."""
        folder, keep = self._options.adapter_out, self._options.keep
        if folder is None or (keep == "best" and not is_best and self._standing.best_step):
            return None
        if keep == "all":
            folder = folder / f"step-{self._session.steps}"
        self._session.save_adapter(folder)
        self._kept["the adapter"] = self._session.steps, folder
        return folder

    def __str__(self) -> str:
        parts = [f"{what} of step {step} in {where}" for what, (step, where) in self._kept.items()]
        return f"kept: {', '.join(parts)}" if parts else "nothing was kept"
