# SPDX-License-Identifier: Apache-2.0
"""What a golden folder holds, and the run that has to give its bits again; golden_cases.py writes them.

It is what a user has at some moment: model.mebp (of a split model also model.edge.mebp and model.cloud.mebp), the
state and, where one is trained, the adapter after two steps. golden.json says how the run goes and what came out.
Nothing here needs torch: what was drawn is stored.
"""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

import mebp
from mebp.split import Server, connect
from mebp.tokenizer import Tokenizer
from mebp.training.objectives import make_objective
from mebp.training.objectives.base import Objective
from mebp.training.options import TrainingOptions

ROOT = Path(__file__).resolve().parents[1] / "golden"
FORMAT = "2.0"  # the version that this build writes
ARCHIVES = sorted(ROOT.glob("*/*.tar.xz"))
STEPS = 2  # before the state, and after it


@dataclass(frozen=True)
class Run:
    """How a session of a golden folder is made and what it does; lists, numbers and texts alone, as JSON has them."""

    kind: str = "steps"  # or "sequences", or "objective"
    session: dict = field(default_factory=dict)  # what mebp.Session takes; "split" and "spills": see Golden
    batches: list = field(default_factory=list)  # of each step: what Session.step takes, or a list of such
    objective: dict = field(default_factory=dict)  # what TrainingOptions takes, and "length"
    prompt: list[list[int]] = field(default_factory=list)  # what the trained model continues


@dataclass(frozen=True)
class Outcome:
    losses: list[str]  # of all steps, as hexadecimal numbers
    trained: str  # a digest of all trainables, after STEPS
    resumed: str  # after as many more
    text: list[list[int]]
    loaded: str | None = None  # of the adapter that was saved; what a value head trains by itself is not in the other's


def run_module(module: str, *arguments: object, **environment: str) -> None:
    """In a process of its own, since a family of kernels is a process's: the reference's."""
    path = os.pathsep.join([str(ROOT.parent), os.environ["PYTHONPATH"]])
    environment = {"MEBP_KERNELS": "reference", "PYTHONPATH": path, **environment}
    subprocess.run([sys.executable, "-m", module, *map(str, arguments)], env=os.environ | environment, check=True)


def unpack(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(folder)
    return folder


def read(folder: Path) -> tuple[Run, Outcome]:
    said = json.loads((folder / "golden.json").read_text())
    return Run(**said["run"]), Outcome(**said["outcome"])


def run(folder: Path, how: Run, scratch: Path, *, saves: bool = False) -> Outcome:
    """From the bundle. saves: the state and the adapter of a session that has one, in the folder."""
    made = Golden(folder, how, scratch)
    made.begin()
    losses, trained = made.steps(0), made.digest()
    if saves:
        made.save_state(folder / "state")
        if "lora" in "".join(made.session.trainables()):
            made.session.save_adapter(folder / "adapter")
    losses += made.steps(STEPS)
    return Outcome(losses, trained, made.digest(), made.text(), load(folder, how, scratch))


def resume(folder: Path, how: Run, scratch: Path) -> Outcome:
    """From the saved state; the losses before it are not known."""
    made = Golden(folder, how, scratch)
    made.begin(folder / "state")
    trained = made.digest()
    return Outcome(made.steps(STEPS), trained, made.digest(), made.text(), load(folder, how, scratch))


def load(folder: Path, how: Run, scratch: Path) -> str | None:
    """A digest of the saved adapter, where there is one."""
    if not (folder / "adapter").exists():
        return None
    made = Golden(folder, how, scratch)
    for adapter in made.adapters():
        with adapter():
            made.session.load_adapter(folder / "adapter")
    return made.digest()


class Golden:
    """A run over an unpacked folder; what it spills lies in `scratch`."""

    def __init__(self, folder: Path, run: Run, scratch: Path) -> None:
        self.run = run
        self._objective: Objective | None = None
        options = dict(run.session)
        bundle = folder / "model.mebp"
        if options.pop("spills", False):
            options["spill_folder"] = scratch
        if in_flight := int(options.pop("split", False)):  # micro-batches of a step
            bundle = folder / "model.edge.mebp"
            self._server = Server(folder / "model.cloud.mebp", threads=1)
            options["stream"] = connect(bundle, self._server, in_flight=in_flight)
        if run.kind == "objective":
            asked = dict(run.objective)
            reward = [f"{folder / each}" for each in asked.pop("reward", [])]
            length, data = asked.pop("length"), folder / asked.pop("data")
            asked = TrainingOptions(bundle, data, reward=reward or None, **asked)
            self._objective = make_objective(asked, Tokenizer(bundle), length)
            options |= self._objective.session_options()
        self.session = mebp.Session(bundle, threads=1, **options)

    def begin(self, state: Path | None = None) -> None:
        saved = self.session.load_state(state) if state else b""
        if self._objective:
            if saved:
                self._objective.restore(json.loads(saved))
            list(self._objective.begin(self.session))

    def save_state(self, folder: Path) -> None:
        self.session.save_state(folder, json.dumps(self._objective.saved()).encode() if self._objective else b"")

    def steps(self, first: int) -> list[str]:
        """The losses of STEPS steps from this one on."""
        kinds = {"steps": self._step, "sequences": self._step_over_sequences, "objective": self._step_of_objective}
        return [float(kinds[self.run.kind](number)).hex() for number in range(first, first + STEPS)]

    def _step(self, number: int) -> float:
        batch = self.run.batches[number]
        if isinstance(batch, dict):
            return self.session.step(**_arrays(batch)).loss
        parts = [_arrays(each) for each in batch]
        return self.session.step([each["input_ids"] for each in parts], [each["labels"] for each in parts]).loss

    def _step_over_sequences(self, number: int) -> float:
        """The second of two waits for its factor; a value head has its own step, where its adapter is its own."""
        total = 0.0
        for index, batch in enumerate(self.run.batches[number]):
            ids = np.array(batch["input_ids"])
            with self.session.sequence(ids) as sequence:
                total += float(sequence.logprobs.sum())
                values = {} if sequence.values is None else {"values": np.full_like(sequence.values, 0.125)}
                sequence.backward(np.full_like(sequence.logprobs, 0.5 * index - 0.25), pending=index == 1, **values)
        self.session.settle(0.375)
        self.session.apply()
        if self.session.has_value_adapter:
            with self.session.by_value_adapter(), self.session.sequence(ids) as sequence:
                total += float(sequence.values.sum())
                sequence.backward(np.zeros_like(sequence.logprobs), values=np.full_like(sequence.values, 0.125))
                self.session.apply()
        return total

    def _step_of_objective(self, number: int) -> float:
        return self._objective.step(self.session, number).result.loss

    def adapters(self) -> list[Callable]:
        session = self.session
        return [nullcontext, session.by_value_adapter] if session.has_value_adapter else [nullcontext]

    def digest(self) -> str:
        found = hashlib.sha256()
        for adapter in self.adapters():
            with adapter():
                for name, values in self.session.trainables().items():
                    found.update(f"{name} {values.dtype} {values.shape}".encode() + values.tobytes())
        return found.hexdigest()

    def text(self) -> list[list[int]]:
        """What the trained model writes, where the run has a prompt."""
        if not self.run.prompt:
            return []
        return self.session.generate(np.array(self.run.prompt), max_new_tokens=9).tolist()


def _arrays(batch: dict) -> dict[str, np.ndarray]:
    return {name: np.array(values, np.int32) for name, values in batch.items()}


def outcomes(archive: Path, scratch: Path) -> dict:
    """What this build makes of a folder, as JSON has it."""
    folder = unpack(archive, scratch / "golden")
    how, expected = read(folder)
    found = {"expected": expected, "run": run(folder, how, scratch), "resumed": resume(folder, how, scratch)}
    return {name: asdict(each) for name, each in found.items()}


if __name__ == "__main__":
    found = {}
    for archive in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                found[archive] = outcomes(Path(archive), Path(scratch))
            except Exception:
                found[archive] = {"error": traceback.format_exc()}
    Path(sys.argv[1]).write_text(json.dumps(found))
