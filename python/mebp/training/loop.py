# SPDX-License-Identifier: Apache-2.0
"""The loop: steps, evaluations, saving."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from mebp.data import Dataset, load_dataset
from mebp.errors import Error
from mebp.files import check_space, make_parent, read_bytes
from mebp.inspect import inspect
from mebp.memory import anonymous_bytes
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training import interrupts, state
from mebp.training.evaluation import evaluate, perplexity
from mebp.training.keeping import Keeper
from mebp.training.log import Evaluation, Record, RunLog
from mebp.training.options import TrainingOptions
from mebp.training.outputs import check_outputs
from mebp.training.progress import Reporter, make_reporter
from mebp.training.schedule import learning_rate
from mebp.training.standing import Standing
from mebp.words import counted

_LOG_LINE_BYTES = 256

Callback = Callable[[Record], object]


@dataclass(frozen=True, repr=False)
class TrainingRun:
    """What a run did."""

    records: list[Record]  # one for each step; of a resumed run that has a log, those before as well
    evaluations: list[Evaluation]
    session: Session  # as the run left it
    interrupted: bool  # by a signal, before its last step
    signal: int | None = None  # which one

    def __repr__(self) -> str:
        losses = f", loss {self.records[0].loss:.4f} to {self.records[-1].loss:.4f}" if self.records else ""
        return f"TrainingRun({counted(len(self.records), 'step')}{losses}, {self.session})"


def train(options: TrainingOptions, callback: Callback | None = None, progress: bool = True) -> TrainingRun:
    """Runs to the end, to a signal or until `callback` returns True; saves state and adapter in every case.

    Raises mebp.Error where a step fails, as when the loss is not finite, and what `callback` raises; what was trained
    before is saved.
    """
    check_outputs(options)
    with ExitStack() as stack:
        for folder in filter(None, (options.state, options.adapter_out)):
            stack.enter_context(state.locked(folder))
        if options.log:
            make_parent(options.log, "choose another --log")
            stack.enter_context(state.locked(options.log, is_folder=False))
        length = inspect(options.bundle)["model"]["sequence"]
        tokenizer = Tokenizer(options.bundle)
        data = load_dataset(options.data, tokenizer, length)
        eval_data = load_dataset(options.eval, tokenizer, length) if options.eval else None
        before = anonymous_bytes()
        session = Session(
            options.bundle,
            device=options.device,
            threads=options.threads,
            optimizer=options.optimizer,
            lr=options.lr,
            weight_decay=options.weight_decay,
            clip=options.clip,
            accumulate=options.accumulate > 1,
            return_gradients=False,
            spill_folder=options.spill,
            profile=options.profile,
        )
        _check_budget(session)
        session.check_space(options.state, options.adapter_out)
        return _Run(options, session, data, eval_data, before).run(callback, progress)


def _check_budget(session: Session) -> None:
    """Another optimizer, accumulation or clipping than was planned for may need more than was promised."""
    peak, budget = session.plan["planned_peak_bytes"], session.plan["budget_bytes"]
    if budget and peak > budget:
        raise Error(
            f"this run needs {peak / 1e6:.1f} MB, and the bundle was compiled for a budget of {budget / 1e6:.1f} MB; "
            "leave out --accumulate and --clip, take --optimizer sgd or fewer --threads, or compile with a larger "
            "--memory-budget"
        )


def _digest(adapter: Path) -> str:
    return sha256(read_bytes(adapter / "adapter_model.safetensors", "check --adapter")).hexdigest()


class _Run:
    def __init__(
        self, options: TrainingOptions, session: Session, data: Dataset, eval_data: Dataset | None, before: int
    ) -> None:
        self.options, self.session, self.data, self.eval_data = options, session, data, eval_data
        steps_per_epoch = data.steps_per_epoch(session.max_batch * options.accumulate)
        self.total = options.total_steps(steps_per_epoch)
        self.eval_every = options.eval_every or steps_per_epoch
        # The plan is of the runtime alone; this process holds Python, the tokenizer and the data as well.
        self.planned_bytes = session.plan["planned_peak_bytes"] + max(0, before - session.plan["process_bytes"])
        self.description = {
            "data": data.digest,
            "--seed": options.seed,
            "--lr": options.lr,
            "--optimizer": session.optimizer,
            "--weight-decay": options.weight_decay,
            "--accumulate": options.accumulate,
            "--schedule": options.schedule,
            "--warmup": options.warmup,
            "--adapter": options.adapter and _digest(options.adapter),
        }
        if options.schedule != "constant":
            self.description["--steps"] = self.total  # the rates depend on it
        self.standing = Standing()
        self.told_writing = self.told_explosion = False
        self.spoiled = False  # a gradient that is not finite was applied, or a part of one
        self.failed = False  # at its loss: the trainables are as good as lost

    def run(self, callback: Callback | None, progress: bool) -> TrainingRun:
        options = self.options
        resumed = options.resume and state.exists(options.state)
        if resumed:
            stored = state.load(self.session, options.state, self.description)
            self.standing = Standing.restored(stored.get("standing"))
        elif options.adapter:
            self.session.load_adapter(options.adapter)
        first = self.session.steps
        self.keeper = Keeper(options, self.session, self.description, self.standing)
        if resumed:
            self.keeper.go_on()
        else:
            self.keeper.begin_anew()
        with make_reporter(self.total, self.planned_bytes, progress) as reporter, interrupts.watched() as interrupted:
            self._announce(reporter, resumed, first)
            if options.log:
                check_space(options.log.parent, _LOG_LINE_BYTES * (self.total - first), "the log")
            log = RunLog(options.log, first)
            stopped = False
            try:
                while not (self._is_finished or interrupted.pressed or stopped):
                    self._evaluate_if_due(log, reporter, interrupted)  # where the run was stopped before it
                    if self._is_finished:
                        break
                    record = self._step(log, reporter)
                    stopped = callback is not None and bool(callback(record))
                    self._evaluate_if_due(log, reporter, interrupted)
                    if self.session.steps % options.save_every == 0:
                        self.keeper.save_state()
                        if options.keep == "all" and not options.eval:
                            self.keeper.save_adapter()
            except (Exception, SystemExit) as error:  # the callback's, too
                self._fail(error, first, log, reporter)
                raise
            self._finish(log, reporter)
            if not self._is_finished:
                hint = "; continue with --resume" if options.state else ""
                reporter.say(f"stopped after step {self.session.steps} of {self.total}{hint}")
            cut = interrupted.pressed and not self._is_finished
            return TrainingRun(log.records, log.evaluations, self.session, cut, interrupted.signal if cut else None)

    @property
    def _is_finished(self) -> bool:
        return self.session.steps >= self.total or self._has_lost_patience

    @property
    def _has_lost_patience(self) -> bool:
        return bool(self.options.patience) and self.standing.misses >= self.options.patience

    def _step(self, log: RunLog, reporter: Reporter) -> Record:
        options, step = self.options, self.session.steps
        rate = learning_rate(step, self.total, options.lr, options.schedule, options.warmup)
        self.session.set_learning_rate(rate)
        ids, labels = self.data.step_batches(step, self.session.max_batch, options.accumulate, options.seed)
        try:
            result = self.session.step(ids, labels)
        except Error as error:
            self.failed, self.spoiled = True, self.session.is_poisoned
            raise Error(f"step {step + 1}: {error}") from error
        if not math.isfinite(result.grad_norm):
            self.spoiled = True
            raise Error(
                f"step {step + 1}: the gradient's norm is {result.grad_norm} and was applied, so nothing is saved; "
                "go on from the last state with --resume, or start over with --clip or a lower --lr"
            )
        record = Record(step + 1, result.loss, result.grad_norm, rate, result.tokens, result.seconds, result.peak_bytes)
        log.add(record)
        if result.written_bytes and not self.told_writing:
            reporter.say(f"each step writes up to {result.written_bytes / 1e6:.1f} MB to disk, which wears flash")
            self.told_writing = True
        reporter.step(record, seen=sum(batch.size for batch in ids))
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

    def _evaluate_if_due(self, log: RunLog, reporter: Reporter, interrupted: interrupts.Interrupts) -> None:
        step = self.session.steps
        due = step > 0 and (step % self.eval_every == 0 or step == self.total)
        if self.eval_data is None or not due or self.standing.evaluated == step:
            return
        try:
            with reporter.busy("evaluating"):
                loss = evaluate(self.session, self.eval_data, stop=lambda: interrupted.pressed)
        except Error as error:
            self.failed = True
            raise Error(f"{self.options.eval} after step {step}: {error}") from error
        if loss is None:
            return
        log.add(Evaluation(step, loss))
        is_best = self.standing.evaluate(step, loss)
        reporter.say(f"step {step}/{self.total}  eval loss {loss:.4f}  perplexity {perplexity(loss):.2f}")
        if self.options.keep == "all" or (self.options.keep == "best" and is_best):
            self.keeper.save_adapter(is_best)
        if self._has_lost_patience and step < self.total:
            best = f"the best is {self.standing.best_loss:.4f} after step {self.standing.best_step}"
            misses = counted(self.standing.misses, "evaluation")
            reporter.say(f"no lower eval loss in {misses}, so the run ends here; {best}")

    def _announce(self, reporter: Reporter, resumed: bool, first: int) -> None:
        options, session, data = self.options, self.session, self.data
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
            f"{options.data}: {counted(data.counted, 'token')} to predict in {counted(len(data.rows), 'row')} of up to "
            f"{session.max_sequence}"
        )
        for note in [*data.notes, *(self.eval_data.notes if self.eval_data else ())]:
            reporter.say(note)
        planned, compiled = session.plan["planned_peak_bytes"], session.plan["peak_bytes"]
        how = "as compiled" if planned == compiled else f"with these options ({compiled / 1e6:.1f} MB as compiled)"
        beside = (self.planned_bytes - planned) / 1e6
        reporter.say(
            f"planned peak: {planned / 1e6:.1f} MB {how}, and about {beside:.0f} MB of Python, tokenizer and data"
        )
        if not options.adapter_out:
            reporter.say("without --adapter-out DIR the adapter is not kept")

    def _fail(self, error: BaseException, first: int, log: RunLog, reporter: Reporter) -> None:
        """Saves what can be; an mebp.Error tells what that was."""
        if self.spoiled:
            return
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

    def _save(self, log: RunLog, reporter: Reporter) -> list[Error]:
        """What went wrong: where the disk of one is full, the others are written all the same."""
        failures = []
        for write in (self._save_state, self._save_adapter, self._draw):
            try:
                write(log, reporter)
            except Error as error:
                failures.append(error)
        return failures

    def _save_state(self, log: RunLog, reporter: Reporter) -> None:
        self.keeper.save_state()

    def _save_adapter(self, log: RunLog, reporter: Reporter) -> None:
        if (self.failed or self._has_exploded) and self.keeper.would_replace:
            held = f"{self.options.adapter_out} keeps the adapter that was there"  # which is better
            raise Error(held if self.failed else f"{self._explosion(log)}; {held}")
        folder = self.keeper.save_adapter()
        if folder:
            reporter.say(f"adapter: {folder}")
        elif self.options.adapter_out:
            best = f"eval loss {self.standing.best_loss:.4f}, after step {self.standing.best_step}"
            reporter.say(f"adapter: {self.options.adapter_out} ({best})")

    def _draw(self, log: RunLog, reporter: Reporter) -> None:
        options = self.options
        if options.plot and log.records:
            from mebp.training.plot import plot_loss  # matplotlib costs a second and 50 MB

            plot_loss(log.records, log.evaluations, options.plot, title=f"{options.bundle.name} on {options.data.name}")
            reporter.say(f"loss curve: {options.plot}")
