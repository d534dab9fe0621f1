# SPDX-License-Identifier: Apache-2.0
"""From a model's name to a bundle that trains on some data, in one go: what is exported and compiled is kept.

fingerprint what a bundle is made of, as a short name
length      the sequence length that the data asks for
budget      what of the free memory a plan takes
possible    what can be refused before an export
pruning     what the cache holds, and its limit
using       the bundle and the adapter of a command that uses what was trained
"""

import functools
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from mebp.building.budget import (
    CHOSEN,
    QUARTER,
    Budget,
    choose_budget,
    find_budget,
    free_budget,
    leaves_plan_open,
    quarter,
)
from mebp.building.fingerprint import bundle_fingerprint, export_fingerprint
from mebp.building.length import choose_length, is_enough_to_share, model_limit
from mebp.building.possible import check_possible, trained_storage
from mebp.building.pruning import cache_limit, keep_within
from mebp.cache import Cache
from mebp.compile_options import AUTO, NONE, CompileOptions, as_arguments
from mebp.compiler import find_frontier, find_generation_peak, plan_mebpc, run_mebpc
from mebp.errors import Error
from mebp.exporter.finding import Found, find_model
from mebp.files import own_file, read_json, scratch_folder
from mebp.gguf.source import called, unpack_gguf
from mebp.inspect import adapted_layers, describe_trained, few_adapted, inspect, storage_options
from mebp.session_options import byte_size
from mebp.tasks import CAUSAL
from mebp.tokenizer import ALL_TOKENS, Tokenizer
from mebp.tools import python_module, watch_tool
from mebp.words import counted

_GENERATED = 1024  # tokens of a prompt and its answer
_EXPORTED = 256  # tokens; the compiler takes any other number, but for windows that are longer than the export
_ONNX = "model.onnx"

Say = Callable[[str], None]
Made = TypeVar("Made")


def is_bundle(path: Path) -> bool:
    """Whether what the user named is one already, by its name where nothing is there."""
    return path.suffix == ".mebp" or (path / "manifest.json").is_file()


@dataclass(frozen=True)
class Trained:
    """What a bundle is to train on."""

    data: str  # where it is, for a reader
    lengths: Callable[[Tokenizer], Sequence[int] | None]  # of its samples; None of packed text
    may_cut: bool = True  # those that are too long, instead of refusing them
    pairs_up_to: int = 0  # tokens, where sequences come in pairs that may run side by side
    writes: bool = False  # the model itself, as it trains
    packs: bool | None = False  # several samples into a row; None: where the data is enough for it
    task: str = CAUSAL
    classes: Callable[[dict], Sequence[str]] = lambda config: ()  # of a classifier, by its config.json
    usual_budget: str = NONE  # where nobody asks for one: a size, QUARTER, or NONE
    asked: Callable[[Tokenizer], int] | None = None  # tokens of a prompt and its answer, if it answers some meanwhile
    train_tokens: Sequence[str] = ()  # which the model's tokenizer does not have yet, or ALL_TOKENS


@dataclass(frozen=True)
class Built:
    """A bundle, and what makes it again."""

    bundle: Path
    model: str  # what names the same model whenever it is asked for: of a branch on the hub, its commit
    exporting: Mapping[str, object]  # options of mebp export
    compiling: Mapping[str, object]  # options of mebpc
    is_new: bool  # it was not in the cache


@dataclass(frozen=True)
class Planned:
    """A plan."""

    text: str  # as mebpc prints it
    plan: Mapping  # as its --plan-json has it
    budget: int  # that a run must keep, in bytes; 0 for none


@dataclass(frozen=True)
class Builder:
    """Says what it chose, line by line, and what it is doing, stage by stage."""

    say: Say
    stage: Say

    def build(self, model: str, trained: Trained, options: CompileOptions, also: Mapping[str, object]) -> Built:
        """The bundle of `model`, for what it is `trained` on, from the cache or made now.

        also: options of mebpc that the run knows by itself.
        Raises mebp.Error where the model cannot be found, exported or compiled as asked.
        """
        cache_limit()  # refuses what is no size before anything is made
        cache = Cache(self.say)
        return self._make(cache, self._prepare(cache, model, trained, options, also))

    def plan(self, model: str, trained: Trained, options: CompileOptions, also: Mapping[str, object]) -> "Planned":
        """That of the bundle which `build` would make; the model is exported, and no more."""
        cache = Cache(self.say)
        asked = self._prepare(cache, model, trained, options, also)
        exported = self._exported(cache, asked)
        self.stage("planning")
        text, plan = _by_mebpc(plan_mebpc, exported, asked.compiling)
        return Planned(text, plan, 0 if asked.compiling.get(CHOSEN) else plan["budget_bytes"])

    def rebuild(self, model: str, exporting: Mapping[str, object], compiling: Mapping[str, object]) -> Built:
        """The bundle of `model` that these options, those of another Built, make. Raises mebp.Error as `build` does."""
        found = self._find(model)
        with settings_of(found) as settings:
            export_key = export_fingerprint(found, settings, exporting)
        return self._make(Cache(self.say), _Asked(_exact(found, model), found, export_key, exporting, compiling))

    def _prepare(
        self, cache: Cache, model: str, trained: Trained, options: CompileOptions, also: Mapping[str, object]
    ) -> "_Asked":
        found = self._find(model)
        with settings_of(found) as settings:
            limit = model_limit(settings)
            config = read_json(own_file(settings / "config.json"), "download the model again")
            optimizer = also.get("optimizer")
            storage = trained_storage(options, optimizer)
            check_possible(config, limit, options, optimizer)
            classes = trained.classes(config)
            chosen = {**self._choose(settings, limit, trained, options), **also}
            if storage:
                self.say(f"--weights {storage}: a step can change weights that are stored so")
                chosen["weights"] = storage
            longest = max(_EXPORTED, chosen["seq_len"], chosen["generate_len"] or 0)
            exporting = {"seq_len": min(longest, limit or longest)}
            if trained.task != CAUSAL:
                exporting["task"] = trained.task
            if classes:
                self.say(f"--task {trained.task}: {len(classes)} classes, {', '.join(classes)}")
                exporting["classes"] = ",".join(classes)
            if trained.train_tokens:
                exporting["train_tokens"] = ",".join(trained.train_tokens)
            export_key = export_fingerprint(found, settings, exporting)
        asked = _Asked(_exact(found, model), found, export_key, exporting, chosen)
        if trained.usual_budget == NONE or not leaves_plan_open(chosen):
            return asked
        return self._with_budget(cache, asked, trained.usual_budget)

    def _find(self, model: str) -> Found:
        self.stage(f"looking for {model}")
        found = find_model(model)
        if found.note:
            self.say(found.note)
        return found

    def _with_budget(self, cache: Cache, asked: "_Asked", usual: str) -> "_Asked":
        """With the budget that holds where nobody asks for one, if this system tells what is free."""
        chosen = {**asked.compiling, "spill": "none"}
        if usual != QUARTER:
            budget = Budget(byte_size("--memory-budget", usual), "as this run began")
        elif (most := quarter()) is None:
            return asked
        else:
            budget = find_budget(cache.like("bundles", f"{asked.entry}-*"), most)
            if budget is None:
                asked = replace(asked, exported=self._exported(cache, asked))
                self.stage("choosing a plan")
                generates = chosen["generate_len"] is not None
                least = _by_mebpc(find_generation_peak, asked.exported, chosen) if generates else 0
                budget = choose_budget(_by_mebpc(find_frontier, asked.exported, chosen), most, least)
        generating = f" --generate-len {chosen['generate_len']}" if chosen["generate_len"] else ""
        self.say(f"--memory-budget {budget} --spill none{generating}: {budget.reason}")
        return replace(asked, compiling={**chosen, "memory_budget": str(budget), CHOSEN: True})

    def _make(self, cache: Cache, asked: "_Asked") -> Built:
        name, limit = asked.name, cache_limit()

        def compile(folder: Path) -> None:
            exported = self._exported(cache, asked)
            self.stage("compiling")
            make = lambda onnx, options: run_mebpc(onnx, folder / f"{name}.mebp", options)  # noqa: E731
            _by_mebpc(make, exported, asked.compiling)

        size = f"-{asked.compiling['memory_budget']}" if asked.compiling.get(CHOSEN) else ""
        folder, kept = cache.keep(f"bundles/{asked.entry}{size}", compile)
        bundle = folder / f"{name}.mebp"
        how = "from the cache" if kept else f"exported and compiled in {time.monotonic() - asked.started:.0f} s"
        self.say(f"{bundle}: the bundle, {how}")
        description = inspect(bundle)
        self.say(_summary(description))
        if warning := few_adapted(description):
            self.say(warning)
        for line in keep_within(limit) if limit and not kept else ():
            self.say(line)
        return Built(bundle, asked.model, asked.exporting, asked.compiling, not kept)

    def _exported(self, cache: Cache, asked: "_Asked") -> Path:
        """The ONNX file."""
        if asked.exported:
            return asked.exported
        export = lambda target: self._export(asked.model, target / _ONNX, asked.exporting)  # noqa: E731
        folder, kept = cache.keep(f"exports/{asked.name}-{asked.export_key}", export)
        if kept:
            self.say(f"{folder / _ONNX}: the export, from the cache")
        return folder / _ONNX

    def _choose(
        self, settings: Path, limit: int | None, trained: Trained, options: CompileOptions
    ) -> dict[str, object]:
        """What mebpc is given: the options, and what they leave open."""
        if options.memory_budget == NONE:
            options = replace(options, memory_budget=None)
        chosen = options.given()
        texts = () if tuple(trained.train_tokens) == ALL_TOKENS else trained.train_tokens
        tokenizer = functools.cache(lambda: Tokenizer.of_model(settings, texts))  # where it is needed
        if texts:
            ids = [tokenizer().id_of(text) for text in texts]  # refuses those that the model has already
            self.say(f"--train-tokens {','.join(texts)}: {counted(len(texts), 'token')}, from {ids[0]} on")
        lengths = None
        if options.seq_len is None or not trained.may_cut or trained.packs is None:
            self.stage(f"reading {trained.data}")
            lengths = trained.lengths(tokenizer())  # which also says what is wrong in the data
        if options.seq_len is None:
            longer = trained.packs is not False and options.memory_budget is None  # for they take memory
            length = choose_length(lengths, limit, trained.may_cut, longer)
            self.say(f"--seq-len {length.tokens}: {length.reason}")
            chosen["seq_len"] = length.tokens
        if trained.packs or (trained.packs is None and is_enough_to_share(lengths, chosen["seq_len"])):
            chosen["packing"] = True
        if options.memory_budget == AUTO:
            budget = free_budget()
            self.say(f"--memory-budget {budget}: {budget.reason}")
            chosen["memory_budget"] = str(budget)
        if options.batch is None and options.memory_budget is None and chosen["seq_len"] <= trained.pairs_up_to:
            self.say(f"--batch 2: pairs of up to {trained.pairs_up_to} tokens are faster side by side")
            chosen["batch"] = 2
        if options.generate_len is None and options.memory_budget is None and trained.task == CAUSAL:
            chosen["generate_len"] = min(_GENERATED, limit or _GENERATED)
        elif options.generate_len is None and trained.writes:
            chosen["generate_len"] = chosen["seq_len"]
        if options.generate_len is None and trained.asked:
            wanted = max(trained.asked(tokenizer()), chosen.get("generate_len", 0))
            chosen["generate_len"] = min(wanted, limit or wanted)
        return {"batch": 1, "generate_len": None, **chosen}

    def _export(self, model: str, onnx: Path, options: Mapping[str, object]) -> None:
        # A process of its own: torch takes hundreds of MB, which the run would keep.
        self.stage("loading torch and transformers")
        command = python_module("mebp", "export", model, "-o", str(onnx), *as_arguments(options))
        try:
            for note in watch_tool(command, self._tell):
                self.say(note)
        except Error as error:
            raise Error(str(error).removeprefix("mebp: ")) from None

    def _tell(self, line: str) -> None:
        if not line.startswith("wrote "):
            self.stage(line)


@dataclass(frozen=True)
class _Asked:
    """What a bundle is to be made of."""

    model: str  # as Built has it
    found: Found
    export_key: str
    exporting: Mapping[str, object]
    compiling: Mapping[str, object]
    exported: Path | None = None  # where it was made or found already
    started: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        return re.sub(r"[^\w.-]+", "-", self.found.name.rpartition("/")[2])

    @property
    def entry(self) -> str:
        """The bundle's in the cache, without a budget that nobody asked for."""
        told = dict(self.compiling)
        if told.pop(CHOSEN, False):
            del told["memory_budget"]
        if told.get("memory_budget") is None and told.get("spill") == "none":
            del told["spill"]  # which is so without it
        return f"{self.name}-{bundle_fingerprint(self.export_key, told)}"


def _exact(found: Found, model: str) -> str:
    return found.origin if found.asked else model


def _by_mebpc(run: Callable[[Path, Mapping[str, object]], Made], exported: Path, options: Mapping[str, object]) -> Made:
    """What `run` of mebpc's options gives; its refusals have the options' names here."""
    try:
        asked = {name: value for name, value in options.items() if name != CHOSEN}
        return run(exported, CompileOptions.named_by_mebpc(asked))
    except Error as error:
        raise Error(CompileOptions.named_here(str(error))) from None


def _summary(description: dict) -> str:
    model, stored = description["model"], storage_options(description)
    shares = description["manifest"]["options"].get("packing") and model["task"] == CAUSAL
    parts = [
        f"{stored['weights']} weights, {stored['embedding_weights']} embedding, {model['activation']} activations",
        describe_trained(description) + _in_layers(description),
        f"batch {model['batch']}",
        *(["samples share rows"] if shares else []),
        *([f"generates text up to {model['positions']:,} tokens"] if model["positions"] else []),
    ]
    return "; ".join(parts)


def _in_layers(description: dict) -> str:
    if not description["model"]["lora"]["rank"]:
        return ""
    adapted, layers = adapted_layers(description)
    return f", in {adapted} of {counted(layers, 'layer')}"


@contextmanager
def settings_of(model: Found) -> Iterator[Path]:
    """A folder with the model's config.json and tokenizer."""
    if not model.is_gguf:
        if not (model.place / "config.json").is_file():
            raise Error(
                f"{model.place}: neither a bundle nor a model of Hugging Face (no config.json); give one of them"
            )
        yield model.place
        return
    with model.as_typed(), scratch_folder(Path(tempfile.gettempdir()), "mebp-settings-") as folder:
        unpack_gguf(model.place, folder, with_weights=False)
        with called(model.place, folder):
            yield folder
