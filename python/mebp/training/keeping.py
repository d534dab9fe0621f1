# SPDX-License-Identifier: Apache-2.0
"""What a run leaves on the disk: its state, and its adapters or models."""

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

from mebp import outputs
from mebp.adapters.origin import Origin, discard_origin, write_origin
from mebp.building.budget import binding_budget
from mebp.expert_adapters import adapted_parameters, unreached
from mebp.files import read_bytes
from mebp.inspect import inspect
from mebp.model_folder import copy_templates, copy_tokenizer, discard_templates
from mebp.remote_adapters import adapter_kinds
from mebp.session import Session
from mebp.trained_model import MODEL_FILE, is_trained_model
from mebp.training import state
from mebp.training.defaults import CHOSEN, stored
from mebp.training.model_card import discard_card, make_card, write_card
from mebp.training.objectives.base import Objective
from mebp.training.options import TrainingOptions
from mebp.training.reports import Reports
from mebp.training.standing import Standing

CONFIG = "adapter_config.json"  # in the folder of any adapter
VALUE_FILES = "value_head.safetensors", "value_adapter.safetensors"
TABLE, PICTURE = "training.csv", "training.png"  # beside them
CURVES = {TABLE: outputs.LOG, PICTURE: outputs.PICTURE}


def step_folders(folder: Path) -> list[Path]:
    """What --keep all has left in `folder`."""
    names = CONFIG, MODEL_FILE
    return [file.parent for name in names for file in folder.glob(f"step-*/{name}")]


def adapter_digest(adapter: Path) -> str:
    return sha256(read_bytes(adapter / "adapter_model.safetensors", "check --adapter")).hexdigest()


def load_adapter(session: Session, folder: Path) -> None:
    """The policy's and, where there is another, the value's."""
    session.load_adapter(folder)
    if session.has_value_adapter:
        with session.by_value_adapter():
            session.load_adapter(folder)


class Keeper:
    """Writes them, and knows of which step is what is there."""

    def __init__(
        self,
        options: TrainingOptions,
        session: Session,
        description: dict,
        standing: Standing,
        command: str,
        objective: Objective,
        origin: Origin,
        began: Mapping[str, str] | None = None,
    ) -> None:
        self._options, self._description, self._standing = options, description, standing
        self._objective = objective
        self.session = session
        self._command, self._origin, self._began = command, origin, began
        self.saves_alone = False  # other processes have ended, or are elsewhere
        self.unlisted: str | None = None  # why the adapter does not count as this machine's own
        self.reports: Reports | None = None
        self._kept: dict[str, tuple[int, Path]] = {}
        self._model = options.model_out is not None
        self.what = "model" if self._model else "adapter"
        self.folder = options.model_out or options.adapter_out
        name = MODEL_FILE if self._model else CONFIG
        self._held = self.folder is not None and (self.folder / name).exists()

    def go_on(self) -> None:
        """The state on the disk is the session's."""
        self._kept["the state"] = self.session.steps, self._options.state

    def begin_anew(self) -> None:
        """Removes what an earlier run left and this one would be mistaken for."""
        if self._options.state:
            state.discard(self._options.state)
        if self.folder:
            for name in CURVES:
                (self.folder / name).unlink(missing_ok=True)
        if self.folder and self._options.keep == "all":
            for folder in step_folders(self.folder):
                if is_trained_model(folder):
                    shutil.rmtree(folder)
                    continue
                for file in {CONFIG, *(kind.file for kind in adapter_kinds()), *VALUE_FILES}:
                    (folder / file).unlink(missing_ok=True)
                discard_card(folder)
                discard_origin(folder)
                discard_templates(folder)
                with suppress(OSError):  # something else is in it
                    folder.rmdir()

    def save_state(self) -> None:
        """In all processes that share a run, at the same step: each may have a part of it."""
        if self.saves_alone and self._objective.is_in_parts:
            return
        with self._objective.state_parts(self.session, self._options.state is not None) as parts:
            self._save_state_by(partial(state.save, parts=parts))

    def pause(self) -> None:
        """Saves the state, and gives the session's memory back until it resumes."""
        self._save_state_by(state.pause)

    def _save_state_by(self, save: Callable[[Session, Path, dict], None]) -> None:
        if self._options.state:
            planned = self.session.plan["budget_bytes"]
            budget = binding_budget(self.session.path, planned)
            beside = {
                "budget": budget,  # which --resume keeps where it is to be chosen
                "chosen_budget": planned - budget,  # likewise, where nobody asked for it
                "standing": self._standing.stored(),
                CHOSEN: stored(self._options),
                "model": self._began,
                "objective": self._objective.saved(),
                "reports": self.reports.keys if self.reports else {},
            }
            save(self.session, self._options.state, self._description | beside)
            self._kept["the state"] = self.session.steps, self._options.state

    @property
    def would_replace(self) -> bool:
        """Whether what is written at the end takes the place of one that was there before the run."""
        if self._options.keep == "best" and self._standing.best_step:
            return False
        return self._held and self._options.keep != "all"

    def save_result(self, is_best: bool = False) -> Path | None:
        """At the end, or after an evaluation that was the best or not; returns where one was written, if one was."""
        folder, keep = self.folder, self._options.keep
        if folder is None or (keep == "best" and not is_best and self._standing.best_step):
            return None
        if keep == "all":
            folder = folder / f"step-{self.session.steps}"
        if self._model:
            self.session.model.write(folder, replace=True)
        else:
            self.session.save_adapter(folder)
            has_tokens = any("rows_of" in each for each in inspect(self.session.path)["trainables"])
            copy = copy_tokenizer if has_tokens else copy_templates  # which nobody else has
            copy(self._options.bundle / "tokenizer", folder)
            text = make_card(self._options, self.session, self._description, self._standing, self._command,
                             self._objective.has_perplexity)  # fmt: skip
            write_card(folder, text)
            self.unlisted = write_origin(folder, self._origin)
        self._kept[f"the {self.what}"] = self.session.steps, folder
        return folder

    def find_unreached(self) -> str | None:
        """The experts whose adapters no token has changed, in a few words."""
        description = inspect(self.session.path)
        return unreached(self.session.trainables(), description) if adapted_parameters(description) else None

    @property
    def result(self) -> Path | None:
        """Where the adapter or model lies that is the best, or else the last; None where none was written."""
        if self.folder is None or not self.has_result:
            return None
        best = self.folder / f"step-{self._standing.best_step}"
        if self._options.keep == "all" and best.exists():
            return best
        return self._kept.get(f"the {self.what}", (0, self.folder))[1]

    @property
    def has_result(self) -> bool:
        """Whether this run has written one, before it was stopped and resumed or since."""
        return f"the {self.what}" in self._kept or bool(self._options.keep == "best" and self._standing.best_step)

    def __str__(self) -> str:
        parts = [f"{what} of step {step} in {where}" for what, (step, where) in self._kept.items()]
        return f"kept: {', '.join(parts)}" if parts else "nothing was kept"
