# SPDX-License-Identifier: Apache-2.0
"""What `mebp judge` finds, at the end of a run, in the memory that the run has had."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from mebp.building.budget import binding_budget
from mebp.data.prompt_text import PromptTokens
from mebp.data.sources import Source
from mebp.errors import translate_errors
from mebp.files import scratch_folder
from mebp.judging import GENERAL, MOST_NEW_TOKENS, Judgement, judge, prepare, read_questions
from mebp.judging.told import told
from mebp.rewards import StoppedError
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.asking import bytes_of_answers
from mebp.training.options import TrainingOptions
from mebp.training.progress import Reporter

MOST = 100  # samples of a file, from all over it
_SHOWN = 3  # answers

T = TypeVar("T")


class Judging:
    """The questions of a run with --judge; false of any other."""

    def __init__(self, options: TrainingOptions, session: Session, tokenizer: Tokenizer) -> None:
        """Raises mebp.Error where the data has no questions, or one for which the bundle has no room."""
        self._options, self._session, self._tokenizer = options, session, tokenizer
        self._prepared = None
        if options.judge:
            source = options.test or options.eval
            questions = read_questions(source)
            self._source, self._samples = source, len(questions)
            prepared = prepare(_spread(questions), source, Source.of(GENERAL), session, tokenizer)
            self._prepared = replace(prepared, general=_spread(prepared.general))

    def __bool__(self) -> bool:
        return self._prepared is not None

    def run(self, adapter: Path, reporter: Reporter, stop: Callable[[], bool]) -> Judgement | None:
        """Judges the adapter that was kept, and says what was found; where that takes more memory than the run had, or
        `stop()` became true, the command that does it. The session is as before."""
        session = self._session
        parent = adapter.absolute().parent
        with (
            translate_errors(f"{adapter}: the run cannot be kept beside it to judge it", "free some space"),
            scratch_folder(parent, f".judging-{adapter.name}-") as scratch,
            reporter.busy("judging"),
        ):
            plan = session.plan
            allowed = binding_budget(session.path, plan["budget_bytes"]) or plan["planned_peak_bytes"]
            session.pause(scratch / "last")
            try:
                found = self._judge(adapter, allowed, stop)
            finally:
                session.resume()
        if isinstance(found, str):
            reporter.say(f"not judged: {found}; later: {self._command(adapter)}")
            return None
        of = f"{min(self._samples, MOST):,} of {self._samples:,} samples" if self._samples > MOST else "all samples"
        for line in [f"{self._source}, {of}:", *told(found, changed=_SHOWN)]:
            reporter.say(line)
        reporter.say(f"in full: {self._command(adapter)}")
        return found

    def _judge(self, adapter: Path, allowed: int, stop: Callable[[], bool]) -> Judgement | str:
        """What it found, or why it did not look."""

        def stage(what: str) -> None:
            if stop():
                raise StoppedError

        options = self._options
        session = Session(options.bundle, device=options.device, threads=options.threads, forward_only=True)
        needed = session.plan["planned_peak_bytes"] + bytes_of_answers(session.plan)
        if needed > allowed:
            return f"it takes {needed / 1e6:.1f} MB, and this run has {allowed / 1e6:.1f}"
        try:
            return judge(session, self._tokenizer, self._prepared, adapter, stage=stage)
        except StoppedError:
            return "the run was stopped"

    def _command(self, adapter: Path) -> str:
        columns = ["--columns", self._options.columns] if self._options.columns else []
        data = replace(self._source, share=None).asked
        bundle = str(self._options.bundle)
        return shlex.join(["mebp", "judge", bundle, "--adapter", str(adapter), "--data", data, *columns])


def tokens_of_judging(options: TrainingOptions, tokenizer: Tokenizer) -> int:
    """Of the longest question with its answer; 0 where nothing is judged."""
    if not options.judge:
        return 0
    source = options.test or options.eval
    texts = [question.text for question in _spread(read_questions(source))]
    return MOST_NEW_TOKENS + max(len(ids) for ids, _ in PromptTokens(source.files(), tokenizer).read(texts))


def _spread(several: Sequence[T]) -> Sequence[T]:
    """As many as there may be, from all over them."""
    count = min(MOST, len(several))
    return [several[index * len(several) // count] for index in range(count)]
