# SPDX-License-Identifier: Apache-2.0
"""A run as it is asked for, by the names of the command line: of a bundle, or of a model that becomes one first."""

import os
import re
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import TypeVar

from mebp.adapters.origin import Origin, is_known
from mebp.building import Builder, Built, Planned, Trained, is_bundle
from mebp.building.budget import QUARTER, binding_budget, size_text
from mebp.compile_options import AUTO, NONE, SPILLS, CompileOptions, compile_option_kinds, flag
from mebp.compiler import check_options
from mebp.data.hub import is_hub
from mebp.data.reading import has_conversations
from mebp.data.sources import Source, read_sources, told
from mebp.data.splits import find_splits
from mebp.distributed.bundles import bundle_for_all, check_files
from mebp.distributed.choices import check_alone
from mebp.distributed.group import Group, joined
from mebp.distributed.launched import is_launched
from mebp.distributed.restarts import begins, leave_mark
from mebp.distributed.roles import for_rank
from mebp.errors import Error
from mebp.exporter.hub_files import name_on_hub
from mebp.files import user_path
from mebp.inspect import inspect
from mebp.objective_traits import SFT, objectives
from mebp.remote_adapters import listed_kinds
from mebp.session_options import optimizer_option_kinds, takes_losses
from mebp.tasks import CAUSAL, FILL_MASK
from mebp.tokenizer import Tokenizer
from mebp.training.asking import bytes_asking, tokens_of_asking, told_of_answers
from mebp.training.interrupts import ended_by_signals
from mebp.training.judging import tokens_of_judging
from mebp.training.keeping import adapter_digest
from mebp.training.loop import Callback, TrainingRun, train
from mebp.training.model_card import command_of
from mebp.training.objective_options import needed_options, objective_kinds
from mebp.training.objectives import class_of
from mebp.training.options import MEASURED, TrainingOptions, option_kinds
from mebp.training.outputs import check_outputs
from mebp.training.planning import plan
from mebp.training.pushing import check_push, push
from mebp.training.reports import check_installed
from mebp.training.state import ASKED, EXACT, exists, saved_with, steps
from mebp.waiting import stages
from mebp.words import listed, say

Made = TypeVar("Made")

_REQUIRED = {"bundle": "MODEL or NAME.mebp", "data": "--data FILE"}


def request_kinds() -> dict[str, type]:
    """The type of each option, by its name."""
    return option_kinds() | optimizer_option_kinds() | objective_kinds() | compile_option_kinds()


@dataclass(frozen=True)
class Request:
    training: TrainingOptions
    compiling: CompileOptions

    @classmethod
    def of(cls, given: Mapping[str, object]) -> "Request":
        """Raises mebp.Error for invalid options, and for such as do not go together."""
        given = _with_spill_dir(given)
        compiling = CompileOptions(**_among(compile_option_kinds(), given))
        options = _among(option_kinds(), given)
        options["objective_options"] = _among(objective_kinds(), given)
        options["optimizer_options"] = _among(optimizer_option_kinds(), given)
        if options.get("rollouts"):  # which are the data
            options.setdefault("data", options["rollouts"])
        missing = [_REQUIRED[field.name] for field in fields(TrainingOptions)
                   if field.default is MISSING and field.name not in options]  # fmt: skip
        if missing:
            raise Error(f"{' and '.join(missing)} must be given, here or in --config; see mebp train --help")
        if is_bundle(options["bundle"]) and compiling.given():
            name = next(iter(compiling.given()))
            own = next(iter(CompileOptions.named_by_mebpc({name: None})))
            raise Error(
                f"{flag(name)} is for a model, and {options['bundle']} is compiled already; give the model, or compile "
                f"it again with mebpc {flag(own)}"
            )
        if options.get("connect") and not is_bundle(options["bundle"]):
            raise Error(
                f"--connect is for a device's half of a model, and {options['bundle']} is not compiled; split it first "
                f"with mebpc --split {listed_kinds()}"
            )
        options = _as_began(options)
        options = {**_from_folders(read_sources(options.pop("data")), options), **options}
        training = TrainingOptions(**options)
        if training.mask_probability is not None and training.task is None and not is_bundle(training.bundle):
            raise Error(f"--mask-probability is for --task {FILL_MASK}; leave it out, or give that, too")
        if training.train_tokens:
            _check_tokens(training, compiling)
        if training.embedding_lr is not None and not (
            is_bundle(training.bundle) or training.train_tokens or compiling.train == "full"
        ):
            raise Error("--embedding-lr is of rows of new tokens, or of an embedding that is trained whole; give "
                        "--train-tokens or --train full, too")  # fmt: skip
        return cls(training, compiling)

    def run(self, callback: Callback | None = None, progress: bool = True) -> TrainingRun:
        """As mebp.training.loop.train, after the model was exported and compiled where it has to be."""
        if not is_launched():
            check_alone(self.training)
        elif self.training.interface:
            os.environ["GLOO_SOCKET_IFNAME"] = self.training.interface  # which torch reads
        group = joined()
        if group is None:
            return self._run(callback, progress)
        if not begins(group, self.training.state, self._saved_steps()):
            return TrainingRun([], [], None, interrupted=True, signal=signal.SIGINT)
        try:
            return replace(self, training=for_rank(self.training, group))._run(callback, progress and group.is_first)
        except KeyboardInterrupt:  # before the first step, or for the second time
            leave_mark(group)
            raise

    def _saved_steps(self) -> int:
        """Of the state that the run goes on from; 0 where there is none."""
        with suppress(Error):  # which loading it says
            if self.training.resume and exists(self.training.state):
                return steps(self.training.state)
        return 0

    def _run(self, callback: Callback | None, progress: bool) -> TrainingRun:
        if self.training.plan_only:
            return self._plan(progress)
        check_installed(self.training.report_to)
        check_push(self.training.push_to_hub)
        self._check_kind()
        check_outputs(self.training)  # before what takes minutes
        for source in self._sources() if progress else ():
            if source.hub and source.hub.note:
                say(source.hub.note)
        bundle, model, origin = self._bundle(progress)

        def asked(options: TrainingOptions) -> str:
            return command_of(replace(options, bundle=Path(model)), self.compiling.given())

        began = {ASKED: str(self.training.bundle), EXACT: model, **self._hub_data()}
        run = train(replace(self.training, bundle=bundle), callback, progress, asked, began, origin)
        if progress and not is_bundle(self.training.bundle) and self.training.adapter_out and not run.interrupted:
            say(f"next: {self._next(run)}")
        if self.training.push_to_hub:
            self._push(run, progress)
        return run

    def _push(self, run: TrainingRun, progress: bool) -> None:
        """Raises UploadError where it fails."""
        repository, folder = self.training.push_to_hub, run.kept or self.training.adapter_out
        tell = say if progress else _silent
        if run.interrupted:
            tell(f"--push-to-hub {repository}: nothing was uploaded, since the run was stopped")
            return
        tell(f"uploading {folder} to {repository}")
        tell(f"uploaded: {push(repository, folder, progress)}")

    def _check_kind(self) -> None:
        """Raises mebp.Error where what is read or written does not go with what a model trains."""
        training, full = self.training, self.compiling.train == "full"
        if is_bundle(training.bundle):
            return
        if training.model_out and not full:
            raise Error(
                f"--model-out {training.model_out}: an adapter is trained, and no weights of the model; give --train "
                "full, or --adapter-out"
            )
        for option, path in {"--adapter-out": training.adapter_out, "--adapter": training.adapter}.items():
            if path and full:
                raise Error(f"{option} {path}: --train full has no adapter; leave it out, and give --model-out")
        if training.adapter:
            adapter_digest(training.adapter)
        if training.spill_dir and not training.spill_dir.is_dir():
            raise Error(f"--spill-dir {training.spill_dir}: is not a folder; choose one on a disk")

    def _plan(self, progress: bool) -> TrainingRun:
        """Shows it: a bundle's, or that which mebpc makes for a model, whose weights are then not looked at."""
        if is_bundle(self.training.bundle):
            if lacking := _lacking_to_answer(self.training, self.training.bundle):
                raise lacking.refusal()
            return TrainingRun([], [], plan(self.training, progress), interrupted=False)
        say_if = say if progress else _silent
        say_if(self._build(progress, self._plan_with_room))
        return TrainingRun([], [], None, interrupted=False)

    def _next(self, run: TrainingRun) -> str:
        """A command that uses what was trained."""
        training = self.training
        adapter = run.kept or training.adapter_out
        base = [] if is_known(adapter) else ["--base", str(training.bundle)]
        if run.session.task == CAUSAL:
            chat = ["--chat"] if has_conversations(training.data[0]) else []
            return shlex.join(["mebp", "generate", str(adapter), *base, *chat, "--prompt"]) + ' "..."'
        data = training.eval or training.data[0]
        columns = ["--columns", training.columns] if training.columns else []
        return shlex.join(["mebp", "eval", str(adapter), *base, "--data", replace(data, share=None).asked, *columns])

    def _sources(self) -> list[Source]:
        return [*self.training.data, *self.training.measured.values()]

    def _hub_data(self) -> dict[str, str]:
        """Data of the hub by what was asked for, when the run began, each at its commit."""
        return _hub_data_of(self.training.resume, self.training.state) | {
            source.asked: str(source) for source in self._sources() if source.hub
        }

    def _bundle(self, progress: bool) -> tuple[Path, str, Origin]:
        """And what names the same model whenever it is asked for, and how it was made."""
        asked = self.training.bundle
        if is_bundle(asked):
            if group := joined():
                check_files(group, asked)
            if lacking := _lacking_to_answer(self.training, asked):
                raise lacking.refusal()
            return asked, str(asked), Origin.of_bundle(asked)
        if group := joined():
            return self._bundle_of_group(group, progress)
        built = self._build(progress, self._build_with_room)
        return built.bundle, built.model, Origin.of_built(built, str(asked))

    def _bundle_of_group(self, group: Group, progress: bool) -> tuple[Path, str, Origin]:
        """Rank 0 makes it, and the others take it."""
        built: list[Built] = []

        def make() -> tuple[Path, str]:
            built.append(self._build(progress, self._build_with_room))
            return built[0].bundle, built[0].model

        bundle, model = bundle_for_all(group, make)
        asked = str(self.training.bundle)
        return bundle, model, Origin.of_built(built[0], asked) if built else Origin.of_bundle(bundle)

    def _build(self, progress: bool, make: Callable[..., Made]) -> Made:
        """What a method of Builder makes of the model."""
        training = self.training
        if training.optimizer:
            takes_losses(training.optimizer)  # refuses one that is not there
        objective = class_of(training)
        also = {name: getattr(training, name) for name in ("optimizer", "threads", "device")}
        also["momentum"] = training.optimizer_options.get("momentum")
        if training.objective != SFT:
            also["objective"] = training.objective
        if not (training.optimizer and takes_losses(training.optimizer)):
            also["accumulate"] = (training.batches_per_step > 1 or training.turn_weights) and training.objective == SFT
            also["clip"] = training.clip is not None and not training.clip_recompute
        also |= needed_options(training.objective, training.objective_options)
        given = self.compiling.given()
        if self.compiling.memory_budget in (AUTO, NONE):
            del given["memory_budget"]
        try:
            check_options(CompileOptions.named_by_mebpc(given | also))  # likewise, as mebpc would after the export
        except Error as error:
            raise Error(CompileOptions.named_here(str(error))) from None
        for source in self._sources():
            objective.check_data(source)  # what is wrong in them is told now, not in some minutes
        trained = Trained(
            told(training.data),
            lambda tokenizer: objective.sequence_lengths(training, tokenizer),
            objective.cuts_samples,
            objective.pairs_up_to,
            objectives()[training.objective].writes,
            objective.packs(training),
            training.task or CAUSAL,
            lambda config: objective.classes_of(training, config),
            self._usual_budget(),
            self._written if training.ask or training.judge else None,
            training.train_tokens or (),
        )
        with ExitStack() as stack:
            stack.enter_context(ended_by_signals())
            tell = stage = _silent
            if progress:
                stage, tell = stack.enter_context(stages("starting")), say
            return make(Builder(tell, stage), self._model(tell), trained, self._compiling(tell), also)

    def _written(self, tokenizer: Tokenizer) -> int:
        """Tokens of the longest prompt with its answer."""
        return max(find(self.training, tokenizer) for find in (tokens_of_asking, tokens_of_judging))

    def _build_with_room(self, builder: Builder, *asked: object) -> Built:
        """As Builder.build; where a budget is to hold what --ask takes as well, with less of it for training."""
        return self._with_room(
            builder, builder.build, lambda built: _lacking_to_answer(self.training, built.bundle), asked
        )

    def _plan_with_room(self, builder: Builder, *asked: object) -> str:
        """The same as a plan, with what --ask takes below it."""

        def lacking(planned: Planned) -> "_Lacking | None":
            return _lacking(self.training, planned.budget, planned.plan)

        planned = self._with_room(builder, builder.plan, lacking, asked)
        return "\n".join([planned.text, *told_of_answers(self.training, planned.plan)])

    def _with_room(
        self,
        builder: Builder,
        make: Callable[..., Made],
        lacking_of: Callable[[Made], "_Lacking | None"],
        asked: tuple[str, Trained, CompileOptions, Mapping[str, object]],
    ) -> Made:
        made = make(*asked)
        lacking = lacking_of(made)
        if not lacking:
            return made
        builder.say(f"--ask: answers need {lacking.beside / 1e6:.1f} MB of the budget, so another plan is looked for")
        model, trained, compiling, also = asked
        try:
            return make(model, trained, replace(compiling, memory_budget=lacking.rest), also)
        except Error as error:
            raise lacking.refusal(str(error)) from None

    def _model(self, tell: Callable[[str], None]) -> str:
        """Of the hub at the commit that the run began with, where it goes on: a branch may be at another by now."""
        asked = str(self.training.bundle)
        if not self.training.resume or user_path(asked).exists():
            return asked
        began = saved_with(self.training.state).get("model")
        names = [name_on_hub(str(began.get(key))) if isinstance(began, dict) else None for key in (ASKED, EXACT)]
        now, (before, exact) = name_on_hub(asked), names
        if None in (now, before, exact) or not exact.is_exact or now.id != exact.id:
            return asked
        if now.revision not in (None, before.revision):
            return asked  # another one, by name
        tell(f"{asked}: commit {exact.revision}, as this run began")
        return str(exact)

    def _compiling(self, tell: Callable[[str], None]) -> CompileOptions:
        """With the budget that the run began with, where it goes on: another one may be another bundle."""
        if not (self.training.resume and self.compiling.memory_budget == AUTO):
            return self.compiling
        budget = saved_with(self.training.state).get("budget")
        if type(budget) is not int or budget <= 0:
            return self.compiling
        tell(f"--memory-budget {size_text(budget)}: as this run began")
        return replace(self.compiling, memory_budget=size_text(budget))

    def _usual_budget(self) -> str:
        """Of Trained: the one that the run began with, where it goes on, or what the user's settings say."""
        if self.compiling.memory_budget is not None:
            return NONE
        began = saved_with(self.training.state) if self.training.resume else {}
        if began:  # an older build's has none
            chosen = began.get("chosen_budget")
            return size_text(chosen) if type(chosen) is int and chosen > 0 else NONE
        return os.environ.get("MEBP_MEMORY_BUDGET") or QUARTER


def _check_tokens(training: TrainingOptions, compiling: CompileOptions) -> None:
    """Raises mebp.Error where no rows of new tokens can be trained."""
    if is_bundle(training.bundle):
        raise Error(
            f"--train-tokens is for a model, and {training.bundle} is compiled already; give the model, or export it "
            "again with mebp export --train-tokens"
        )
    if compiling.train == "full" or compiling.adapter_kind not in (None, "lora"):
        other = "--train full" if compiling.train == "full" else f"--adapter-kind {compiling.adapter_kind}"
        raise Error(
            f"--train-tokens trains rows of new tokens beside LoRA, which {other} is not; leave one of them out"
        )


def _from_folders(sources: Sequence[Source], given: Mapping[str, object]) -> dict[str, object]:
    """The sources, with what is to train on in place of a folder, and what to measure on by the options that take it.

    Raises mebp.Error where several folders have such a file.
    """
    data, measured = [], {}
    for source in sources:
        if source.hub:
            found = {use: replace(source, use=use, share=None) for use in MEASURED if source.hub.files[use]}
            data.append(source)
        else:
            found = find_splits(source.path) if source.path.is_dir() else {"data": source.path}
            data.append(replace(source, path=found.pop("data")))
        for option, path in found.items():
            if option in measured and option not in given:
                raise Error(f"{measured[option]} and {path} are both to measure on; give --{option} FILE")
            measured[option] = path
    return {"data": data, **measured}


def _hub_data_of(resume: object, state: object) -> dict[str, str]:
    """What a run that goes on has read of the hub: its exact names, by what was asked for."""
    began = saved_with(state).get("model") if resume and state else None
    named = began.items() if isinstance(began, dict) else ()
    return {asked: exact for asked, exact in named if is_hub(asked) and isinstance(exact, str) and is_hub(exact)}


def _as_began(options: Mapping[str, object]) -> dict[str, object]:
    """With data of the hub at the commit that a run that goes on began with."""
    began = _hub_data_of(options.get("resume"), options.get("state"))

    def exact(given: object) -> object:
        return began.get(str(given), given)

    data = options["data"]
    named = {"data": [exact(each) for each in data] if isinstance(data, list | tuple) else exact(data)}
    return {**options, **named, **{name: exact(options[name]) for name in MEASURED if options.get(name)}}


def _among(kinds: Mapping[str, type], given: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in given.items() if name in kinds}


def _with_spill_dir(given: Mapping[str, object]) -> Mapping[str, object]:
    """A folder of --spill, as --spill-dir was once called, under that name. Raises mebp.Error for what is neither."""
    spill, folder = given.get("spill"), given.get("spill_dir")
    if spill == "none" and folder is not None:
        raise Error(f"--spill none writes nothing, and --spill-dir {folder} says where; leave one of them out")
    if spill is None or spill in SPILLS:
        return given
    if os.sep not in spill and not user_path(spill).is_dir():
        raise Error(f"--spill {spill}: choose {listed(SPILLS)}; give a folder by --spill-dir")
    if folder is not None:
        raise Error(f"--spill {spill} and --spill-dir {folder} are both folders; leave one of them out")
    return {name: value for name, value in given.items() if name != "spill"} | {"spill_dir": user_path(spill)}


@dataclass(frozen=True)
class _Lacking:
    """What a bundle's budget has too little for answers."""

    budget: int
    peak: int
    beside: int

    @property
    def rest(self) -> str:
        return f"{max(1, self.budget - self.beside)}B"

    def refusal(self, least: str = "") -> Error:
        """least: what mebpc says of the rest, where it has tried."""
        found = _NEEDED.search(least)
        if least and not found:
            return Error(least)
        peak = float(found[1]) * 1e6 if found else self.peak
        return Error(
            f"--ask: answers take {self.beside / 1e6:.1f} MB and training {peak / 1e6:.1f} MB, and the budget is "
            f"{self.budget / 1e6:.1f} MB, so {(self.beside + peak - self.budget) / 1e6:.1f} MB are lacking; give a "
            "larger --memory-budget, a shorter --generate-len, or leave --ask out"
        )


_NEEDED = re.compile(r"needs at least ([0-9.]+) MB")


def _lacking_to_answer(training: TrainingOptions, bundle: Path) -> _Lacking | None:
    if not training.ask:
        return None
    plan = inspect(bundle)["plan"]
    return _lacking(training, binding_budget(bundle, plan["budget_bytes"]), plan)


def _lacking(training: TrainingOptions, budget: int, plan: Mapping) -> _Lacking | None:
    found = _Lacking(budget, plan["peak_bytes"], bytes_asking(training, plan))
    return found if found.beside and found.budget and found.peak + found.beside > found.budget else None


def _silent(line: str) -> None:
    pass
