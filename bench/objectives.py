# SPDX-License-Identifier: Apache-2.0
"""Peak memory and time of preferences and rewards beside SFT's and TRL's, and how long a sequence a plan has room for.

    .venv/bin/python bench/objectives.py [--parts dpo grpo groups plans] [--rounds 2] [--threads N] [--folder DIR]
        [--pair 256 768] [--completion 128 384] [--json FILE] [--markdown docs/objectives-measured.md]

Qwen2.5-0.5B's shape with random weights, int4 here and bf16 for TRL, bf16 activations, LoRA r=8 on all linear layers,
AdamW. Each contender is a process that loads once and then makes its steps in turn with the others; its peak is the
most anonymous memory that the system counts. TRL's trainers run with gradient checkpointing, and are given the same
completions. The plans are of Qwen3-8B's shape, bf16 weights, r=32, in 80 GB with the weights, and take a minute.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from parts.folders import there
from parts.objectives.data import Lengths, Writer, lend_tokenizer, write_lines
from parts.objectives.environment import offline, python_with_trl
from parts.objectives.plans import longest_sequences
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.speed.claims import Claim
from parts.speed.contender import contender
from parts.speed.machine import available_cores
from parts.speed.models import prepare
from parts.spread import Spread

import mebp
from mebp.inspect import inspect

SHAPE = "Qwen2.5-0.5B"
MARK = "bench/objectives.py"
SFT, DPO, SCORING, TRL_DPO = "SFT", "DPO", "DPO, reference in the step", "TRL's DPOTrainer"
GRPO, TRL_GRPO, TRL_BATCHES = "GRPO", "TRL's GRPOTrainer", "TRL's GRPOTrainer, a sequence at a time"
GROUPS = (2, 8, 16)
WRITTEN = 16  # tokens of a completion that the part `groups` writes
PARTS = ("dpo", "grpo", "groups", "plans")


class Bench:
    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.threads, self.rounds, self.folder = arguments.threads, arguments.rounds, folder
        self.pair, self.completion = Lengths(*arguments.pair), Lengths(*arguments.completion)
        self.answers: dict[str, list[dict]] = {}

    def prepare(self) -> None:
        say(f"{SHAPE}: random weights, export, bundles")
        weights = self.folder / SHAPE / "bf16"
        lend_tokenizer(weights)
        longest = max(self.pair.whole, self.completion.whole)
        self.model = prepare(SHAPE, self.folder, longest)
        self.bundles = {}
        for lengths in (self.pair, self.completion):
            bundle = self.folder / f"{lengths.whole}.mebp"
            options = {"seq_len": lengths.whole, "generate_len": lengths.whole, "weights": "int4", "precision": "bf16"}
            if not bundle.exists():
                mebp.compile(self.model.exported, bundle, **options, optimizer="adamw", random_weights=0)
            self.bundles[lengths.whole] = bundle
        self.writer = Writer(bundle)
        os.environ["MEBP_CACHE"] = str(self.folder / "cache")  # of the reference's log-probabilities

    def ours(self, bundle: Path, data: Path, kind: str, *group: object) -> list[str]:
        arguments = [self.threads, bundle, data, kind, *group]
        return [sys.executable, "-m", "parts.objectives.mebp_steps", *map(str, arguments)]

    def trl(self, data: Path, kind: str, *batches: object) -> list[str]:
        os.environ |= offline() | {"PYTHONPATH": str(Path(mebp.__file__).parents[1])}
        arguments = [self.threads, self.model.weights, data, self.folder / "scratch", kind, *batches]
        return [python_with_trl(self.folder), "-m", "parts.objectives.trl_steps", *map(str, arguments)]

    def dpo(self) -> None:
        bundle = self.bundles[self.pair.whole]
        pairs = write_lines(self.folder / "pairs.jsonl", self.writer.pair(self.pair))
        samples = write_lines(self.folder / "samples.jsonl", self.writer.sample(self.pair))
        self.take_turns({
            SFT: self.ours(bundle, samples, "sft"),
            DPO: self.ours(bundle, pairs, "dpo"),
            SCORING: self.ours(bundle, pairs, "dpo-scoring"),
            TRL_DPO: self.trl(pairs, "dpo"),
        })  # fmt: skip

    def grpo(self) -> None:
        bundle, size = self.bundles[self.completion.whole], 8
        rollouts = write_lines(self.folder / "rollouts.jsonl", self.writer.group(self.completion, size))
        self.take_turns({
            GRPO: self.ours(bundle, rollouts, "rollouts"),
            TRL_GRPO: self.trl(rollouts, "grpo"),
            TRL_BATCHES: self.trl(rollouts, "grpo", size),
        })  # fmt: skip

    def groups(self) -> None:
        """Peaks of steps that write their completions, to the end of the room that the bundle has."""
        bundle, whole = self.bundles[self.completion.whole], self.completion.whole
        prompts = write_lines(self.folder / "prompts.jsonl", self.writer.prompt(whole - WRITTEN))
        for size in GROUPS:
            name = f"{GRPO}, group of {size}"
            say(name)
            with contender(self.ours(bundle, prompts, "grpo", size, WRITTEN)) as step:
                self.answers[name] = [step()]

    def take_turns(self, commands: dict[str, list[str]]) -> None:
        with ExitStack() as stack:
            turns: dict[str, Callable[[], dict]] = {}
            for name, command in commands.items():
                say(f"{name}: loads, and warms up")
                turns[name] = stack.enter_context(contender(command))
                turns[name]()
            for number in range(self.rounds):
                for name in list(turns)[:: -1 if number % 2 else 1]:
                    self.answers.setdefault(name, []).append(turns[name]())
                    say(f"{name}: {self.answers[name][-1]['seconds']:.2f} s")

    def claims(self) -> Iterator[Claim]:
        there = self.answers.keys()
        if TRL_DPO in there:
            gradient = sum(4 * each["rows"] * each["columns"] for each in self.description()["trainables"])
            most = 1.02 * self.peak(SFT) + gradient
            yield _claim("DPO's peak / (1.02 SFT's + an adapter's gradient)", "<= 1", self.peak(DPO) / most)
            yield Claim("step: DPO / SFT", "<= 2.05", self.ratios(DPO, SFT))
            yield Claim("step: DPO with the reference in the step / SFT", "<= 2.9", self.ratios(SCORING, SFT))
            yield _claim("peak: TRL's DPO / mebp's", ">= 10", self.peak(TRL_DPO) / self.peak(DPO))
            yield Claim("step: TRL's DPO / mebp's", ">= 1", self.ratios(TRL_DPO, DPO))
        for name in (TRL_GRPO, TRL_BATCHES):
            if name in there:
                what = name.removeprefix("TRL's GRPOTrainer")
                yield _claim(f"peak: TRL's GRPO{what} / mebp's", ">= 10", self.peak(name) / self.peak(GRPO))
                yield Claim(f"step: TRL's GRPO{what} / mebp's", ">= 1", self.ratios(name, GRPO))
        sizes = [f"{GRPO}, group of {size}" for size in GROUPS]
        if sizes[0] in there:
            peaks = [self.peak(name) for name in sizes]
            groups = ", ".join(map(str, GROUPS))
            yield _claim(
                f"GRPO's peak, writing: largest / smallest of groups of {groups}", "<= 1.01", max(peaks) / min(peaks)
            )

    def description(self) -> dict:
        return inspect(self.bundles[self.pair.whole])

    def peak(self, name: str) -> int:
        return max(answer["peak_bytes"] for answer in self.answers[name])

    def ratios(self, name: str, other: str) -> Spread:
        seconds = [[answer["seconds"] for answer in self.answers[each]] for each in (name, other)]
        return Spread.of(one / another for one, another in zip(*seconds, strict=True))

    def steps_table(self) -> list[str]:
        header = "| contender | tokens | s a step | planned, MB | peak, MB |"
        rows = []
        for name, answers in self.answers.items():
            seconds = statistics.median(answer["seconds"] for answer in answers)
            planned = answers[0].get("planned_bytes")
            stated = f"{planned / 1e6:,.1f}" if planned else ""
            rows.append(f"| {name} | {self.tokens(name)} | {seconds:.2f} | {stated} | {self.peak(name) / 1e6:,.0f} |")
        return [header, "| --- | --- |" + " ---: |" * 3, *rows]

    def tokens(self, name: str) -> str:
        if name == SFT:
            return f"{self.pair.whole:,}"
        if name in (DPO, SCORING, TRL_DPO):
            return f"2 x {self.pair.whole:,}"
        size = name.rpartition(" ")[2] if name.startswith(f"{GRPO}, group") else 8
        return f"{size} x {self.completion.whole:,}"


def _claim(text: str, bound: str, ratio: float) -> Claim:
    return Claim(text, bound, Spread(ratio, ratio, ratio))


def claims_table(claims: list[Claim]) -> list[str]:
    rows = []
    for each in claims:
        spread = each.measured
        several = f" ({spread.extent()})" if spread.low != spread.high else ""
        rows.append(f"| {each.text} | {each.bound} | {spread.median:.3g}{several} |")
    return ["| ratio | wanted | measured |", "| --- | --- | --- |", *rows]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def publish(page: Path | None, name: str, lines: list[str]) -> None:
    print("", *lines, sep="\n", flush=True)
    if page and len(lines) > 2:
        mark = f"{MARK}: {name}"
        write_between_marks(page, mark, merge_tables(read_between_marks(page, mark), lines, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure; all of it")
    parser.add_argument("--rounds", type=int, default=2, help="steps of each contender after its first")
    parser.add_argument("--threads", type=int, default=available_cores(), help="of everyone; one for each core")
    parser.add_argument(
        "--pair", type=int, nargs=2, default=[256, 768], help="tokens of a prompt and a completion: dpo"
    )
    parser.add_argument("--completion", type=int, nargs=2, default=[128, 384], help="likewise: grpo and groups")
    parser.add_argument("--folder", type=there, help="keeps models and environment for the next run; a temporary one")
    parser.add_argument("--json", type=Path, help="the file for every single figure")
    parser.add_argument("--markdown", type=Path, help="the page that takes the tables; rows not measured again stay")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mebp-objectives-") as scratch:
        bench = Bench(arguments, (arguments.folder or Path(scratch)).absolute())
        if set(arguments.parts) != {"plans"}:
            bench.prepare()
        for part in arguments.parts:
            if part != "plans":
                getattr(bench, part)()
        if bench.answers:
            publish(arguments.markdown, "steps", bench.steps_table())
            publish(arguments.markdown, "claims", claims_table(list(bench.claims())))
        if arguments.json:
            arguments.json.write_text(json.dumps(bench.answers, indent=1))
        if "plans" in arguments.parts:
            publish(arguments.markdown, "plans", longest_sequences(bench.folder))


if __name__ == "__main__":
    main()
