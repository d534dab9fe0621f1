# SPDX-License-Identifier: Apache-2.0
"""TRL's own DPOTrainer and GRPOTrainer beside mebp's runs: the same batches and completions, their curves step by step.

    .venv/bin/python bench/trl_trainers.py [--steps 20] [--threads N] [--folder DIR] [--json FILE]
        [--markdown docs/objectives-measured.md]

SmolLM2-135M in f32, weights too, LoRA r=8 on all linear layers, the same beginning. TRL runs twice, with torch's sdpa
and eager attention, which differ by rounding alone, and once more in float64, which tells who is nearer. Of GRPO, the
first run of TRL has completions that mebp writes by mebp.trl.rollout, with the adapter that torch trains; the others
have the same ones. TRL's trainers need `datasets`, for which the first run makes an environment in --folder by pip.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from parts.folders import there
from parts.objectives.environment import offline, python_with_trl
from parts.pages import write_between_marks
from parts.speed.machine import available_cores

import mebp
from mebp.data.dataset import rows_of_step
from mebp.exporter.packaged import unpack
from mebp.tools import last_line
from mebp.training.log import Record, read_log

EXAMPLES = Path(__file__).parents[1] / "examples"
WORKER = Path(__file__).parent / "parts" / "objectives" / "trl_run.py"
MARK = "bench/trl_trainers.py"
LENGTH, CLIP, RATE = 96, 1.0, 5e-4
PAIRS = 2  # a step
PROMPTS, GROUP, ROOM, ITERATIONS, TEMPERATURE = 1, 4, 24, 2, 1.0
SDPA, EAGER, EXACT = "sdpa", "eager", "float64, sdpa"
ATTENTIONS = SDPA, EAGER, EXACT
MEBP = "mebp"
CURVES = {
    "dpo": ("loss", "rewards/margins", "rewards/chosen", "rewards/rejected", "grad_norm"),
    "grpo": ("loss", "kl", "entropy", "grad_norm"),
}
BETAS = {"dpo": 0.1, "grpo": 0.04}


@dataclass(frozen=True)
class Compared:
    """A curve: its first and last value by sdpa, and how far apart two runs are, as the root of the mean square."""

    objective: str
    name: str
    first: float
    last: float
    eager_from_sdpa: float
    ours_from_sdpa: float
    sdpa_from_exact: float
    ours_from_exact: float


class Bench:
    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.steps, self.threads, self.folder = arguments.steps, arguments.threads, folder
        self.python = python_with_trl(folder)
        self.model = unpack("packaged:smollm2")
        self.bundle, self.adapter = folder / "f32.mebp", folder / "beginning"
        if not self.bundle.exists():
            mebp.export("packaged:smollm2", folder / "model" / "model.onnx", seq_len=LENGTH)
            mebp.compile(folder / "model" / "model.onnx", self.bundle, seq_len=LENGTH, weights="f32",
                         embedding_weights="f32", precision="f32", generate_len=LENGTH)  # fmt: skip
        mebp.Session(self.bundle, forward_only=True).save_adapter(self.adapter)

    def trl(self, objective: str, attention: str, **given: object) -> dict:
        """What trl_run.py leaves of a run."""
        say(f"{objective}: TRL, {attention} attention")
        specification, out = self.folder / "run.json", self.folder / f"{objective}-{attention}.json"
        common = {"objective": objective, "attention": attention, "model": str(self.model), "steps": self.steps,
                  "adapter": str(self.adapter), "scratch": str(self.folder / "scratch"), "lr": RATE, "clip": CLIP,
                  "beta": BETAS[objective], "threads": self.threads, "out": str(out)}  # fmt: skip
        specification.write_text(json.dumps(common | given))
        found = [str(Path(mebp.__file__).parents[1]), str(Path(__file__).parent)]
        command = [self.python, str(WORKER), str(specification)]
        environment = offline() | {"PYTHONPATH": ":".join(found)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            raise RuntimeError(last_line(done.stderr, command, done.returncode))
        return json.loads(out.read_text())

    def ours(self, objective: str, **options: object) -> list[dict]:
        """A run's figures, step by step."""
        say(f"{objective}: mebp")
        log = self.folder / f"{objective}-mebp.jsonl"
        mebp.train(self.bundle, objective=objective, beta=BETAS[objective], steps=self.steps, lr=RATE, clip=CLIP,
                   threads=self.threads, log=log, overwrite=True, progress=False, **options)  # fmt: skip
        records = [entry for entry in read_log(log) if isinstance(entry, Record)]
        return [{"loss": each.loss, "grad_norm": each.grad_norm, **each.metrics} for each in records]

    def dpo(self) -> dict[str, list[dict]]:
        data = EXAMPLES / "brindle_rock_pairs.jsonl"
        pairs = read_lines(data)
        order = [row for step in range(self.steps) for row in rows_of_step(len(pairs), step, PAIRS, 0)]
        given = {"data": [pairs[row] for row in order], "batch": PAIRS}
        runs = {attention: self.trl("dpo", attention, **given)["steps"] for attention in ATTENTIONS}
        return runs | {MEBP: self.ours("dpo", data=data, accumulate=PAIRS)}

    def grpo(self) -> dict[str, list[dict]]:
        reward, function = EXAMPLES / "rewards.py", "one_short_sentence"
        prompts = read_lines(EXAMPLES / "open_questions.jsonl")[: self.steps // ITERATIONS * PROMPTS]
        given = {"data": prompts, "batch": PROMPTS * GROUP, "group": GROUP, "iterations": ITERATIONS, "room": ROOM,
                 "temperature": TEMPERATURE, "reward": str(reward), "function": function,
                 "bundle": str(self.bundle)}  # fmt: skip
        runs, rollouts = {}, None
        for attention in ATTENTIONS:
            run = self.trl("grpo", attention, **given, rollouts=rollouts)
            runs[attention], rollouts = run["steps"], run["rollouts"]
        file = self.folder / "rollouts.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in as_lines(prompts, rollouts)))
        runs[MEBP] = self.ours("grpo", rollouts=file, data=file, reward=[f"{reward}:{function}"], accumulate=PROMPTS,
                                 num_iterations=ITERATIONS, max_completion=ROOM, temperature=TEMPERATURE)  # fmt: skip
        return runs


def as_lines(prompts: list[dict], rollouts: list[dict]) -> list[dict]:
    """What --rollouts reads, each prompt on the line that a run takes when TRL's took it."""
    groups = []
    for rollout in rollouts:
        for start in range(0, len(rollout["prompt_ids"]), GROUP):
            members = range(start, start + GROUP)
            written = [{"ids": rollout["completion_ids"][each], "logps": rollout["logprobs"][each]} for each in members]
            groups.append({"prompt_ids": rollout["prompt_ids"][start], "completions": written})
    lines: list[dict] = [{}] * len(groups)
    taken = iter(range(len(groups)))
    for step in range(len(groups) // PROMPTS):
        for row in rows_of_step(len(groups), step, PROMPTS, 0):
            number = next(taken)
            lines[row] = prompts[number % len(prompts)] | groups[number]
    return lines


def compare(objective: str, runs: Mapping[str, list[dict]]) -> list[Compared]:
    compared = []
    for name in CURVES[objective]:
        sdpa, eager, exact, ours = (
            np.array([step[name] for step in runs[each]], np.float64) for each in (*ATTENTIONS, MEBP)
        )
        apart_by = apart(eager, sdpa), apart(ours, sdpa), apart(sdpa, exact), apart(ours, exact)
        compared.append(Compared(objective, name, sdpa[0], sdpa[-1], *apart_by))
    return compared


def apart(values: np.ndarray, others: np.ndarray) -> float:
    return float(np.sqrt(np.mean((values - others) ** 2)))


def table(compared: list[Compared]) -> list[str]:
    apart_by = "eager from sdpa | mebp from sdpa | ratio | sdpa from float64 | mebp from float64"
    rows = [
        f"| {each.objective} | {each.name} | {each.first:.4g} | {each.last:.4g} | {each.eager_from_sdpa:.1e} "
        f"| {each.ours_from_sdpa:.1e} | {each.ours_from_sdpa / each.eager_from_sdpa:.1f} | {each.sdpa_from_exact:.1e} "
        f"| {each.ours_from_exact:.1e} |"
        for each in compared
    ]
    return [f"| objective | curve | first step | last step | {apart_by} |", "| --- | --- |" + " ---: |" * 7, *rows]


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20, help="updates of each run")
    parser.add_argument("--threads", type=int, default=available_cores(), help="of everyone; one for each core")
    parser.add_argument("--parts", nargs="+", choices=list(CURVES), default=list(CURVES))
    parser.add_argument("--folder", type=there, help="keeps environment and bundle for the next run; a temporary one")
    parser.add_argument("--json", type=Path, help="the file for every step's figures")
    parser.add_argument("--markdown", type=Path, help="the page that takes the table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mebp-trl-") as scratch:
        folder = arguments.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(arguments, folder)
        runs = {objective: getattr(bench, objective)() for objective in arguments.parts}
    if arguments.json:
        arguments.json.write_text(json.dumps(runs, indent=1))
    lines = table([each for objective, found in runs.items() for each in compare(objective, found)])
    print(*lines, sep="\n")
    if arguments.markdown:
        write_between_marks(arguments.markdown, MARK, lines)


if __name__ == "__main__":
    main()
