# SPDX-License-Identifier: Apache-2.0
"""Text to be predicted: the mean of -log p over the labels that count."""

from collections.abc import Mapping

from mebp.data import Dataset, load_dataset
from mebp.data.loading import check_counting, check_samples, has_samples, load_mixed, load_parts, sample_lengths
from mebp.data.sharing import Sharing
from mebp.data.sources import Source, told
from mebp.distributed.sequence_steps import SequenceSteps
from mebp.errors import Error
from mebp.inspect import dropout_of, inspect
from mebp.session import Session
from mebp.session_options import takes_losses
from mebp.tokenizer import Tokenizer
from mebp.training.objectives.base import Step
from mebp.training.objectives.rows import OfRows, told_mix
from mebp.training.objectives.weighted import weighted_step
from mebp.training.options import TrainingOptions
from mebp.words import counted

_LOOKED_AT = 2000  # samples, from all over the file


class Supervised(OfRows):
    has_perplexity = True
    curve = ("loss (nats per token)",)

    @classmethod
    def check_options(cls, options: TrainingOptions) -> None:
        super().check_options(options)
        check_counting(options.data)
        if options.turn_weights and options.optimizer and takes_losses(options.optimizer):
            raise Error(
                f"--turn-weights weighs gradients, and --optimizer {options.optimizer} takes losses alone; choose "
                "another optimizer"
            )

    @classmethod
    def sequence_lengths(cls, options: TrainingOptions, tokenizer: Tokenizer) -> list[int] | None:
        found = [sample_lengths(source, tokenizer, _LOOKED_AT) for source in options.data]
        lengths = [length for each in found for length in each or ()]
        return lengths or None

    @classmethod
    def check_data(cls, path: Source) -> None:
        check_samples(path)

    @classmethod
    def load_measured(cls, path: Source, tokenizer: Tokenizer, session: Session) -> Dataset:
        sharing = Sharing() if session.packs and not path.counting.weighs else None  # the same loss, sooner
        return load_dataset(path, tokenizer, session.max_sequence, sharing)

    @classmethod
    def packs(cls, options: TrainingOptions) -> bool | None:
        return options.packing if _have_samples(options) and not options.turn_weights else False

    def __init__(self, options: TrainingOptions, tokenizer: Tokenizer, length: int) -> None:
        super().__init__(options)
        if options.turn_weights and dropout_of(inspect(options.bundle)):
            raise Error(
                f"--turn-weights has no dropout, and {options.bundle} was compiled for some; leave --turn-weights out, "
                "or compile without --lora-dropout"
            )
        self.step_is_planned = not options.turn_weights
        self._steps = SequenceSteps(self._shared)
        sharing = self._sharing()

        held, hold_out = None, options.hold_out
        if hold_out:
            self.data, held = load_parts(options.data, tokenizer, length, sharing, hold_out)
        else:
            self.data = load_mixed(options.data, tokenizer, length, sharing)
        self.held_in = "sample" if self.data.samples is not None or _have_samples(options) else "row"
        measured = options.measured.items()
        self.measured = {name: load_dataset(source, tokenizer, length, sharing) for name, source in measured}
        self.hold(held)
        self.digest = self.data.digest
        self.use(self.data)
        self.notes = [note for data in (self.data, *self.measured.values()) for note in data.notes]
        if options.packing is not None and not _have_samples(options):
            self.notes.append(
                f"{told(options.data)}: text fills whole rows in any case, with --packing or --no-packing"
            )

    def _sharing(self) -> Sharing | None:
        options = self.options
        if options.packing is False or options.turn_weights:
            return None
        if not inspect(options.bundle)["manifest"].get("options", {}).get("packing"):
            if options.packing and _have_samples(options):
                raise Error(
                    f"--packing puts several samples into a row, which {options.bundle} was compiled without; compile "
                    "it with --packing, or leave --packing out"
                )
            return None
        return Sharing(options.seed, may_cut=not options.packing)

    def description(self) -> Mapping[str, object]:
        return {"--packing": None if self.data.samples is None else "on", **self.options.counting.description()}

    def session_options(self) -> Mapping[str, object]:
        return super().session_options() | ({"accumulate": True} if self.options.turn_weights else {})

    def step(self, session: Session, number: int) -> Step:
        return self._weighted_step(session, number) if self.data.weighted else super().step(session, number)

    def _weighted_step(self, session: Session, number: int) -> Step:
        data, size = self.data, session.max_batch
        rows = data.rows_of_step(number, size * self.options.batches_per_step, self.options.seed)
        batches = [rows[start : start + size] for start in range(0, len(rows), size)]
        ids = [data.padded(batch)[0] for batch in batches]
        weights_of = [data.weights_of(batch) for batch in batches]
        result, sums, weights = weighted_step(session, self._steps, ids, weights_of)
        metrics = self._told_imbalance()
        if data.mix:
            sources = data.mix.sources(rows)
            for index, name in enumerate(data.mix.names):
                if weight := float(weights[sources == index].sum()):
                    metrics[f"loss/{name}"] = float(sums[sources == index].sum()) / weight
        return Step(result, sum(each.size for each in ids), metrics)

    def summary(self, session: Session) -> str:
        data = self.data
        of = "" if data.samples is None else f"{counted(data.samples, 'sample')} in "
        return (
            f"{counted(data.counted, 'token')} to predict in {of}{counted(len(data.rows), 'row')} of up to "
            f"{session.max_sequence}{told_mix(data)}"
        )


def _have_samples(options: TrainingOptions) -> bool:
    return any(has_samples(source) for source in options.data)
