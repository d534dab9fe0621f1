# SPDX-License-Identifier: Apache-2.0
"""The loop: steps, saving, Ctrl-C."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from mebp.data import Dataset, load_dataset
from mebp.inspect import inspect
from mebp.memory import anonymous_bytes
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training import state
from mebp.training.log import Record, RunLog
from mebp.training.options import TrainingOptions
from mebp.training.progress import Reporter, make_reporter
from mebp.training.schedule import learning_rate

FINISHED, INTERRUPTED = 0, 130


def train(options: TrainingOptions) -> int:
    """Runs to the end or to Ctrl-C, saves state and adapter both ways, and returns the exit status."""
    with ExitStack() as stack:
        if options.state:
            stack.enter_context(state.locked(options.state))
        length = inspect(options.bundle)["model"]["sequence"]
        data = load_dataset(options.data, Tokenizer(options.bundle), length)
        before = anonymous_bytes()
        session = Session(
            options.bundle,
            device=options.device,
            threads=options.threads,
            optimizer=options.optimizer,
            lr=options.lr,
            weight_decay=options.weight_decay,
            return_gradients=False,
        )
        return _Run(options, session, data, before).run()


class _Run:
    def __init__(self, options: TrainingOptions, session: Session, data: Dataset, before: int) -> None:
        self.options, self.session, self.data = options, session, data
        self.total = options.total_steps(data.steps_per_epoch(session.max_batch))
        plan = session.plan
        # The plan is of the runtime alone; this process holds Python, the tokenizer and the data as well.
        self.planned_bytes = plan["peak_bytes"] + max(0, before - plan["process_bytes"])
        self.description = {
            "data": data.digest,
            "--seed": options.seed,
            "--lr": options.lr,
            "--optimizer": session.optimizer,
            "--weight-decay": options.weight_decay,
            "--schedule": options.schedule,
            "--warmup": options.warmup,
        }
        if options.schedule != "constant":
            self.description["--steps"] = self.total  # the rates depend on it

    def run(self) -> int:
        options = self.options
        resumed = options.resume and state.exists(options.state)
        if resumed:
            state.load(self.session, options.state, self.description)
        first = self.session.steps
        with make_reporter(self.total, self.planned_bytes) as reporter, _interrupts() as interrupted:
            self._announce(reporter, resumed, first)
            log = RunLog(options.log, first)
            for step in range(first, self.total):
                log.add(self._step(step))
                reporter.step(log.records[-1])
                last = step + 1 == self.total or interrupted
                if options.state and (last or (step + 1) % options.save_every == 0):
                    state.save(self.session, options.state, self.description)
                if interrupted:
                    break
            self._finish(reporter, log)
        return INTERRUPTED if interrupted and self.session.steps < self.total else FINISHED

    def _step(self, step: int) -> Record:
        options = self.options
        rate = learning_rate(step, self.total, options.lr, options.schedule, options.warmup)
        self.session.set_learning_rate(rate)
        ids, labels = self.data.batch(step, self.session.max_batch, options.seed)
        result = self.session.step(ids, labels)
        return Record(step + 1, result.loss, result.grad_norm, rate, result.tokens, result.seconds, result.peak_bytes)

    def _announce(self, reporter: Reporter, resumed: bool, first: int) -> None:
        options, data = self.options, self.data
        if options.resume and not resumed:
            reporter.say(f"{options.state}: no state to resume from, so this run starts at the beginning")
        if first >= self.total:
            reporter.say(f"{options.state}: this run has finished its {self.total} steps")
            return
        start = f"continues after step {first}" if first else f"{self.total} steps"
        reporter.say(
            f"{options.bundle}: {start}, {self.session.optimizer} at lr {options.lr:g}; {options.data}: "
            f"{data.counted:,} tokens to predict in {len(data.rows):,} rows of up to {self.session.max_sequence}"
        )
        for note in data.notes:
            reporter.say(note)
        if not options.adapter_out:
            reporter.say("without --adapter-out DIR the adapter is not kept")

    def _finish(self, reporter: Reporter, log: RunLog) -> None:
        options = self.options
        if options.adapter_out:
            self.session.save_adapter(options.adapter_out)
            reporter.say(f"adapter: {options.adapter_out}")
        if options.plot and log.records:
            from mebp.training.plot import plot_loss  # matplotlib costs a second and 50 MB

            plot_loss(log.records, options.plot, title=options.bundle.name)
            reporter.say(f"loss curve: {options.plot}")
        if self.session.steps < self.total:
            hint = "; continue with --resume" if options.state else ""
            reporter.say(f"stopped after step {self.session.steps} of {self.total}{hint}")


class _Interrupts:
    """True once Ctrl-C was pressed; a second one ends the process at once."""

    def __init__(self) -> None:
        self.pressed = False

    def __bool__(self) -> bool:
        return self.pressed

    def handle(self, number: int, frame: object) -> None:
        self.pressed = True
        signal.signal(number, signal.default_int_handler)


@contextmanager
def _interrupts() -> Iterator[_Interrupts]:
    # A step is never cut in two: the first Ctrl-C is seen when it ends.
    interrupts = _Interrupts()
    previous = signal.signal(signal.SIGINT, interrupts.handle)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, previous)
