# SPDX-License-Identifier: Apache-2.0
"""The loop: steps, evaluations, saving."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from mebp.adapters.origin import Origin
from mebp.data.sources import names_of, told
from mebp.distributed.roles import as_first
from mebp.errors import Error, translate_errors
from mebp.exporter.naming import without_homes
from mebp.files import check_space, make_parent, scratch_folder
from mebp.inspect import inspect
from mebp.judging import Judgement
from mebp.memory import anonymous_bytes
from mebp.outputs import is_same
from mebp.session import Session
from mebp.split_options import exposure
from mebp.tokenizer import Tokenizer
from mebp.training import defaults, interrupts, state
from mebp.training.asking import Asking, bytes_asking
from mebp.training.duration import Duration
from mebp.training.evaluation import perplexity
from mebp.training.judging import Judging
from mebp.training.keeping import PICTURE, TABLE, Keeper, adapter_digest, load_adapter
from mebp.training.log import ANSWERS, Answer, Evaluation, Record, RunLog, Test, write_table
from mebp.training.model_card import command_of
from mebp.training.objectives import Measured, Objective, make_objective
from mebp.training.opening import open_within_budget
from mebp.training.options import TrainingOptions
from mebp.training.outputs import check_outputs
from mebp.training.progress import Reporter, make_reporter
from mebp.training.reports import Reports, check_installed, opened_reports
from mebp.training.schedule import CONSTANT, learning_rates, schedule_notes, warmup_notes
from mebp.training.standing import Standing
from mebp.waiting import told_by
from mebp.words import counted, say

_LOG_LINE_BYTES = 256

Callback = Callable[[Record], object]


@dataclass(frozen=True, repr=False)
class TrainingRun:
    """What a run did."""

    records: list[Record]  # one for each step; of a resumed run that has a log, those before as well
    evaluations: list[Evaluation]
    session: Session | None  # as the run left it; None where a model was planned and not compiled
    interrupted: bool  # by a signal, before its last step
    signal: int | None = None  # which one
    test_loss: float | None = None  # of what was kept, where there is data for it and the run has finished
    kept: Path | None = None  # the folder of the adapter or model: of --keep all, of the best or the last
    judgement: Judgement | None = None  # of a run with judge

    @property
    def refreshes(self) -> tuple[int, int]:
        """Those of the session: how many subspaces were found, and how many a fixed interval would have found."""
        return self.session.refreshes

    def __repr__(self) -> str:
        losses = f", loss {self.records[0].loss:.4f} to {self.records[-1].loss:.4f}" if self.records else ""
        return f"TrainingRun({counted(len(self.records), 'step')}{losses}, {self.session})"


def train(
    options: TrainingOptions,
    callback: Callback | None = None,
    progress: bool = True,
    command: Callable[[TrainingOptions], str] = command_of,
    began: Mapping[str, str] | None = None,
    origin: Origin | None = None,
) -> TrainingRun:
    """Runs to the end, to a signal or until `callback` returns True; saves state and adapter in every case.

    Raises mebp.Error where a step fails, as when the loss is not finite, and what `callback` raises; what was trained
    before is saved. `command` makes of the options what is told in the model card. `began`: what the state keeps of
    the model that the bundle is of. `origin`: what mebp.json has beside the adapter; None for the bundle alone.
    """
    options = as_first(defaults.as_begun(options))
    check_installed(options.report_to)
    check_outputs(options)
    with ExitStack() as stack:
        pauses = stack.enter_context(interrupts.pausing(options.pause_on))
        for folder in filter(None, (options.state, options.adapter_out)):
            stack.enter_context(state.locked(folder))
        if options.model_out:
            stack.enter_context(state.locked(options.model_out, is_folder=False))
        if options.log:
            make_parent(options.log, "choose another --log")
            stack.enter_context(state.locked(options.log, is_folder=False))
        tokenizer = Tokenizer(options.bundle)
        tokenizer.threads = options.threads
        with told_by(say) if progress else nullcontext():
            objective = make_objective(options, tokenizer, inspect(options.bundle)["model"]["sequence"])
        before = anonymous_bytes()
        return _Run(options, objective, tokenizer, before, pauses, command, began, origin).run(callback, progress)


class _Run:
    def __init__(
        self,
        options: TrainingOptions,
        objective: Objective,
        tokenizer: Tokenizer,
        before: int,
        pauses: interrupts.Pauses,
        command: Callable[[TrainingOptions], str],
        began: Mapping[str, str] | None,
        origin: Origin | None,
    ) -> None:
        session, planned = open_within_budget(options, objective)
        self.session = session
        session.check_space(options.state, options.adapter_out)
        if options.model_out:
            session.model.check(
                f"--model-out {options.model_out}", "give --adapter-out; mebp merge makes a model of it"
            )
            session.model.check_space(options.model_out)
        self.objective, self.pauses = objective, pauses
        self.origin = origin or Origin.of_bundle(options.bundle)
        self.asking, self.judging = (kind(options, session, tokenizer) for kind in (Asking, Judging))
        steps_per_epoch = objective.steps_per_epoch(session)
        given = options
        options = defaults.decide(given, steps_per_epoch, objective.measures("eval"), bool(objective.held_out))
        self.options, self.command, self.began = options, command(options), began
        self.chosen = defaults.told(given, options, steps_per_epoch, objective.held_out)
        self.test_loss: float | None = None
        self.total = options.total_steps(steps_per_epoch)
        self.schedule, self.warmup = options.schedule or CONSTANT, options.warmup_steps(self.total)
        self.eval_every = options.eval_every or steps_per_epoch
        # The plan is of the runtime alone; this process holds Python, the tokenizer and the data as well.
        self.planned_bytes = planned + self._bytes_asking + max(0, before - session.plan["process_bytes"])
        self.description = {
            **objective.description(),  # before the data, which is read by them
            "--val-split": options.val_split,
            "data": objective.digest,
            "--seed": options.seed,
            "--lr": options.lr,
            "--embedding-lr": options.embedding_lr,
            "--optimizer": session.optimizer,
            "--weight-decay": options.weight_decay,
            "--accumulate": options.accumulate,
            "--global-batch": options.global_batch,
            "--schedule": self.schedule,
            "--warmup": options.warmup,
            "--warmup-ratio": options.warmup_ratio,
            "--adapter": options.adapter and adapter_digest(options.adapter),
        }
        if self.schedule != CONSTANT or options.warmup_ratio:
            self.description["--steps"] = self.total  # the rates depend on it
        self.columns, self.standing = [*objective.metrics, *(ANSWERS if self.asking else ())], Standing()
        self.told_writing = self.told_explosion = False
        self.spoiled = False  # a gradient that is not finite was applied, or a part of one
        self.failed = False  # at its loss: the trainables are as good as lost

    def run(self, callback: Callback | None, progress: bool) -> TrainingRun:
        options = self.options
        resumed = options.resume and state.exists(options.state)
        stored = {}
        if resumed:
            stored = state.load(self.session, options.state, self.description)
            with state.restoring(options.state):
                self.standing = Standing.restored(stored.get("standing"))
                self.objective.restore(state.records(stored, "objective"))
                if not all(isinstance(key, str) for key in state.records(stored, "reports").values()):
                    raise ValueError("a report has a key")
        elif options.adapter:
            load_adapter(self.session, options.adapter)
        first = self.objective.begin_alike(self.session, options.state if resumed else None)
        self.was_finished = self._is_finished
        self.duration = Duration(options, self.session, self.objective, self.total, self.eval_every)
        told = self.command, self.objective, self.origin, self.began
        self.keeper = Keeper(options, self.session, self.description, self.standing, *told)
        with (
            make_reporter(self.total, self.planned_bytes, progress, self.objective.watched) as reporter,
            interrupts.watched() as self.interrupted,
            self._reports(stored, first, reporter) as reports,
        ):
            self.objective.stop = lambda: self.interrupted.pressed
            if resumed:
                self.keeper.go_on()
            else:
                self.keeper.begin_anew()
            self._announce(reporter, resumed, first)
            if options.log:
                check_space(options.log.parent, _LOG_LINE_BYTES * (self.total - first), "the log")
            table = self.keeper.folder and self.keeper.folder / TABLE
            log = RunLog(options.log, first, table, self.columns)
            log.listeners.append(reports.write)
            self.keeper.reports = reports
            try:
                self._loop(callback, log, reporter)
            except (Exception, SystemExit) as error:  # the callback's, too
                self._fail(error, first, log, reporter)
                raise
            self._finish(log, reporter)
            self._tell_refreshes(reporter)
            if not self._is_finished:
                hint = "; continue with --resume" if options.state else "; with --state DIR a run can go on"
                reporter.say(f"stopped after step {self.session.steps} of {self.total}{hint}")
            by = self.objective.stopped_by(None if self._is_finished else self.interrupted.signal)
            judgement = None
            if self.judging and self._is_finished and not self.was_finished:
                judgement = self.judging.run(self.keeper.result, reporter, lambda: self.interrupted.pressed)
            self.objective.leave()
            found = by is not None, by, self.test_loss, self.keeper.result, judgement
            return TrainingRun(log.records, log.evaluations, self.session, *found)

    def _loop(self, callback: Callback | None, log: RunLog, reporter: Reporter) -> None:
        """Until the end, a signal, or what the callback says."""
        options, stopped = self.options, self._is_finished
        if not (stopped or self.interrupted.pressed):
            self._evaluate_if_due(log, reporter)  # where the run was stopped before it
        while not self.objective.ends(self._is_finished or self.interrupted.pressed or stopped):
            with self.duration.timed():
                record = self._step(log, reporter)
            if record is None:
                break
            for line in self.duration.measured():
                reporter.say(line)
            stopped = callback is not None and bool(callback(record))
            self._evaluate_if_due(log, reporter)
            if self.session.steps % options.save_every == 0:
                self.keeper.save_state()
                if options.keep == "all" and not self.objective.measures("eval"):
                    self.keeper.save_result()
            if self.pauses.is_asked and not (self._is_finished or stopped):
                self._pause(reporter)

    def _pause(self, reporter: Reporter) -> None:
        """Gives the memory back, until a signal comes; the run goes on with the same bits."""
        self.pauses.begin()
        self.keeper.pause()
        how = f"{self.options.pause_on} or SIGCONT continues it"
        reporter.say(f"paused after step {self.session.steps}, with its state in {self.options.state}; {how}")
        self.spoiled = True  # there is nothing that could be saved
        self.pauses.wait(until=lambda: self.interrupted.pressed)
        self.session.resume()
        self.spoiled = False
        reporter.say(f"continues after step {self.session.steps}")

    def _reports(self, stored: dict, first: int, reporter: Reporter) -> AbstractContextManager[Reports]:
        options = self.options
        name = (options.adapter_out or options.bundle).stem
        config = {"bundle": without_homes(str(options.bundle)), "steps": self.total, "batch": self.session.max_batch}
        config |= {"sequence": self.session.max_sequence, **self.description}
        names = None if self._is_finished else options.report_to
        return opened_reports(names, name, config, stored.get("reports") or {}, first, reporter.say)

    @property
    def _is_finished(self) -> bool:
        return self.session.steps >= self.total or self._has_lost_patience

    @property
    def _has_lost_patience(self) -> bool:
        return bool(self.options.patience) and self.standing.misses >= self.options.patience

    def _step(self, log: RunLog, reporter: Reporter) -> Record | None:
        """None where a signal came before the step had changed anything."""
        options, step = self.options, self.session.steps
        rate, own = learning_rates(step, self.total, (options.lr, options.embedding_lr), self.schedule, self.warmup)
        self.session.set_learning_rate(rate, own)
        try:
            done = self.objective.step(self.session, step)
        except Error as error:
            self.failed, self.spoiled = True, self.session.is_poisoned or self.objective.is_in_parts
            raise Error(f"step {step + 1}: {error}") from error
        if done is None:
            return None
        result = done.result
        if not math.isfinite(result.grad_norm):
            self.spoiled = True
            raise Error(
                f"step {step + 1}: the gradient's norm is {result.grad_norm} and was applied, so nothing is saved; "
                "go on from the last state with --resume, or start over with --clip or a lower --lr"
            )
        figures = result.loss, result.grad_norm, rate, result.tokens, result.seconds, result.peak_bytes
        record = Record(step + 1, *figures, done.metrics)
        log.add(record)
        if result.written_bytes and not self.told_writing:
            reporter.say(f"each step writes up to {result.written_bytes / 1e6:.1f} MB to disk, which wears flash")
            self.told_writing = True
        reporter.step(record, seen=done.seen)
        self.standing.step(result.loss)
        if self._has_exploded and not self.told_explosion:
            reporter.say(f"step {step + 1}/{self.total}  {self._explosion(log)}")
            self.told_explosion = True
        return record

    @property
    def _has_exploded(self) -> bool:
        return self.standing.has_exploded(self.session.vocabulary)

    def _explosion(self, log: RunLog) -> str:
        guess = math.log(self.session.vocabulary)
        return (
            f"the loss has exploded: {log.records[-1].loss:.1f} nats, and guessing has {guess:.1f} "
            f"(ln {self.session.vocabulary:,}); start over with a lower --lr or with --clip"
        )

    @property
    def _bytes_asking(self) -> int:
        return bytes_asking(self.options, self.session.plan)

    def _evaluate_if_due(self, log: RunLog, reporter: Reporter) -> None:
        step = self.session.steps
        due = step > 0 and (step % self.eval_every == 0 or step == self.total)
        if not due or self.standing.evaluated == step:
            return
        if self.objective.measures("eval"):
            self._evaluate(step, log, reporter)
        elif self.asking:
            self.standing.evaluated = step
            self._ask(step, log, reporter)

    def _ask(self, step: int, log: RunLog, reporter: Reporter) -> None:
        with reporter.busy("answering"):
            for prompt, answer in self.asking.answers(stop=lambda: self.interrupted.pressed):
                log.add(Answer(step, prompt, answer))
                reporter.say(f"step {step}/{self.total}  {' '.join(prompt.split())}")
                reporter.say(f"  {' '.join(answer.split()) or '(an empty answer)'}")

    def _evaluate(self, step: int, log: RunLog, reporter: Reporter) -> None:
        try:
            with reporter.busy("evaluating"):
                found = self.objective.measure(self.session, "eval", stop=lambda: self.interrupted.pressed)
        except Error as error:
            self.failed = True
            raise Error(f"{self.options.eval or 'what is held out'} after step {step}: {error}") from error
        if found is None:
            return
        log.add(Evaluation(step, found.loss, found.metrics))
        is_best = self.standing.evaluate(step, found.loss)
        reporter.say(f"step {step}/{self.total}  eval loss {self._told(found)}")
        self._ask(step, log, reporter)
        if self.options.keep == "all" or (self.options.keep == "best" and is_best):
            self.keeper.save_result(is_best)
        if self._has_lost_patience and step < self.total:
            best = f"the best is {self.standing.best_loss:.4f} after step {self.standing.best_step}"
            misses = counted(self.standing.misses, "evaluation")
            reporter.say(f"no lower eval loss in {misses}, so the run ends here; {best}")

    def _told(self, found: Measured) -> str:
        words = [f"{found.loss:.4f}"]
        if self.objective.has_perplexity:
            words.append(f"perplexity {perplexity(found.loss):.2f}")
        return "  ".join([*words, *(f"{name} {value:.4g}" for name, value in found.metrics.items())])

    def _announce(self, reporter: Reporter, resumed: bool, first: int) -> None:
        options, session = self.options, self.session
        if options.resume and not resumed:
            reporter.say(f"{options.state}: no state to resume from, so this run starts at the beginning")
        if self._is_finished:
            of = f" its {counted(self.total, 'step')}" if first >= self.total else f" after step {first} (--patience)"
            reporter.say(f"{options.state}: this run has finished{of}")
            return
        if resumed and session.notes:
            reporter.say(session.notes)
        start = f"continues after step {first}" if first else counted(self.total, "step")
        reporter.say(
            f"{options.bundle}: {start}, {session.optimizer} at lr {options.lr:g}, {session.kernels} kernels; "
            f"{told(options.data)}: {self.objective.summary(session)}"
        )
        notes = [] if resumed else [*self.chosen, *schedule_notes(self.total, options.schedule)]
        notes += warmup_notes(self.total, options.lr, options.warmup)
        for note in chain(notes, self.objective.notes_on_dropout(), self.objective.begin(session)):
            reporter.say(note)
        if options.connect:
            reporter.say(exposure(inspect(options.bundle), options.connect))
        compiled = session.plan["peak_bytes"]
        asking = self._bytes_asking
        planned = session.plan["planned_peak_bytes"] + self.objective.bytes_beside(session) + asking
        how = "as compiled"
        if planned != compiled:
            answers = f"; answers of --ask take {asking / 1e6:.1f}" if asking else ""
            how = f"with these options ({compiled / 1e6:.1f} MB as compiled{answers})"
        beside = (self.planned_bytes - planned) / 1e6
        reporter.say(
            f"planned peak: {planned / 1e6:.1f} MB {how}, and about {beside:.0f} MB of Python, tokenizer and data"
        )
        for line in self.duration.predicted():
            reporter.say(line)
        if not self.keeper.folder:
            full = not session.model.is_adapted
            option, what = ("--model-out", "model") if full else ("--adapter-out", "adapter")
            reporter.say(f"without {option} DIR the {what} is not kept")

    def _fail(self, error: BaseException, first: int, log: RunLog, reporter: Reporter) -> None:
        """Saves what can be; an mebp.Error tells what that was."""
        if self.spoiled:
            return
        self.keeper.saves_alone = True
        failures = [] if self.session.steps == first else self._save(log, reporter)
        failures = [failure for failure in failures if str(failure) != str(error)]  # tried again, in vain
        if isinstance(error, Error):
            raise Error("; ".join(map(str, [error, *failures, self.keeper]))) from error
        for failure in failures:
            error.add_note(str(failure))

    def _finish(self, log: RunLog, reporter: Reporter) -> None:
        failures = self._save(log, reporter)
        if failures:
            raise Error("; ".join(map(str, [*failures, self.keeper])))

    def _tell_refreshes(self, reporter: Reporter) -> None:
        made, fixed = self.session.refreshes
        if made == fixed:  # no interval has become longer
            return
        interval = self.options.optimizer_options.get("galore_update_interval") or 200
        reporter.say(
            f"Refreshes: {made:,} of {fixed:,} that a fixed interval of {counted(interval, 'step')} makes "
            f"({round(100 * (1 - made / fixed))} % saved)"
        )

    def _save(self, log: RunLog, reporter: Reporter) -> list[Error]:
        """What went wrong: where the disk of one is full, the others are written all the same."""
        failures = []
        for write in (self._save_state, self._save_result, self._test, self._draw):
            try:
                write(log, reporter)
            except Error as error:
                failures.append(error)
        return failures

    def _save_state(self, log: RunLog, reporter: Reporter) -> None:
        self.keeper.save_state()

    def _save_result(self, log: RunLog, reporter: Reporter) -> None:
        if (self.failed or self._has_exploded) and self.keeper.would_replace:
            held = f"{self.keeper.folder} keeps the {self.keeper.what} that was there"  # which is better
            raise Error(held if self.failed else f"{self._explosion(log)}; {held}")
        folder = self.keeper.save_result()
        if folder:
            reporter.say(f"{self.keeper.what}: {folder}")
            if missed := self.keeper.find_unreached():
                reporter.say(f"note: no token went to {missed}, so their adapters are still zero")
        elif self.keeper.folder:
            best = f"eval loss {self.standing.best_loss:.4f}, after step {self.standing.best_step}"
            reporter.say(f"{self.keeper.what}: {self.keeper.folder} ({best})")
        if self.keeper.unlisted:
            reporter.say(f"note: commands that use {self.keeper.folder} need --base: {self.keeper.unlisted}")

    def _test(self, log: RunLog, reporter: Reporter) -> None:
        if not self.objective.measures("test") or self.was_finished or not self._is_finished or self.failed:
            return
        with self._kept_result() as step, reporter.busy("evaluating on the test data"):
            found = self.objective.measure(self.session, "test", stop=lambda: self.interrupted.pressed)
        if found is None:
            reporter.say(f"{self.options.test}: not measured, since the run was stopped")
            return
        self.test_loss = found.loss
        log.add(Test(step, found.loss, found.metrics))
        reporter.say(f"{self.options.test}: test loss {self._told(found)}, after step {step}")

    @contextmanager
    def _kept_result(self) -> Iterator[int]:
        """What was kept, in the session, and its step; the last step's is there again afterwards."""
        folder, session = self.keeper.folder, self.session
        if folder is None or self.options.keep != "best" or self.standing.best_step in (0, session.steps):
            yield session.steps
            return
        with (
            translate_errors(f"{folder}: the last step cannot be kept beside it", "free some space"),
            scratch_folder(folder.absolute().parent, f".testing-{folder.name}-") as scratch,
        ):
            session.save_state(scratch / "last")
            try:
                if self.options.adapter_out:
                    load_adapter(session, folder)
                else:
                    for name, values in session.model.read_trained(folder):
                        session.set_trainables({name: values})
                yield self.standing.best_step
            finally:
                session.load_state(scratch / "last")

    def _draw(self, log: RunLog, reporter: Reporter) -> None:
        options = self.options
        pictures = [options.plot] if options.plot else []
        if self.keeper.has_result:
            table, picture = self.keeper.folder / TABLE, self.keeper.folder / PICTURE
            if options.log is None or not is_same(options.log, table):
                write_table(log.entries, table, self.columns)
            pictures += [picture] if options.plot is None or not is_same(options.plot, picture) else []
        if not (log.records and pictures):
            return
        from mebp.training.plot import curves_of, plot_run  # matplotlib costs a second and 50 MB

        curves = curves_of(self.objective.curve, self.objective.watched)
        title = f"{options.bundle.name} on {', '.join(names_of(options.data))}"
        for picture in pictures:
            plot_run(log.records, log.evaluations, picture, title, curves)
        name = curves[0].metric or "loss"
        reporter.say(f"{name} curve: {', '.join(map(str, pictures))}")
