# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities, and steps whose coefficients the caller makes of them, as preferences and rewards need it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple

import numpy as np

from mebp import arrays
from mebp.errors import Error, translate_errors
from mebp.numbers import checked
from mebp.session_options import above_zero
from mebp.step_result import StepResult
from mebp.tasks import CAUSAL, does_what


def scored_labels(ids: np.ndarray, mask: object) -> np.ndarray:
    """Labels of the tokens that `mask` has, of all without one; nothing predicts the first of a row."""
    if mask is None:
        return ids
    with translate_errors("mask cannot be made an array", "give one bool for each token", (ValueError, RuntimeError)):
        counted = np.asarray(mask)
    if counted.shape != ids.shape or counted.dtype.kind not in "biu":
        raise Error(
            f"mask has shape {list(counted.shape)} and dtype {counted.dtype}; give one bool or 0 or 1 for each of the "
            f"tokens {list(ids.shape)}"
        )
    return np.where(counted != 0, ids, np.int32(arrays.IGNORED_LABEL))


def check_text(session: object) -> None:
    """Raises mebp.Error where the bundle of a session predicts no next tokens."""
    if session.task != CAUSAL:
        raise Error(
            f"{session.path}: {does_what(session)} and predicts no text; mebp eval measures it, and a language model "
            "writes"
        )


class Sequence:
    """A sequence whose forward has run: `with session.sequence(ids, mask) as q`. Until another call of its session
    computes, its backward can run."""

    def __init__(self, owner: "Sequences", ids: np.ndarray, labels: np.ndarray, temperature: float) -> None:
        self._owner, self._native, self._shape = owner, owner._session, ids.shape
        logprobs, entropy, values = self._native.begin_sequence(ids, labels, temperature)
        owner._begun = self
        self.logprobs: np.ndarray = logprobs[:, 1:]  # float32 [batch, sequence - 1], of the next tokens; 0: not scored
        self.entropy: np.ndarray = entropy[:, 1:]  # of the distributions that they are from
        # What a value head says before each of these tokens; None where the bundle has none.
        self.values: np.ndarray | None = None if values is None else values[:, 1:]

    @property
    def is_open(self) -> bool:
        """Whether its backward can run: no other call has taken its memory, and it has not run yet."""
        return self._owner._begun is self and self._native.has_open_sequence()

    @checked
    def backward(
        self, coefficients: object, pending: bool = False, *, entropy: object = None, values: object = None
    ) -> None:
        """Adds the gradient to the step's: `coefficients` [batch, sequence - 1] are dL/dlogprobs.

        entropy, values: the derivatives by these, likewise, None for zeros. The bundle has to have been compiled with
            entropy_bonus, and with value_head.
        Where tokens were not scored, they are without meaning. With `pending`, they lack a factor that comes later, by
        Session.settle: the gradient is then the step's first, or the session has pending_gradients.
        Raises mebp.Error for another shape, a number that is not finite, and a sequence that has ended.
        """
        if not self.is_open:
            raise Error("this sequence has ended, or another call has taken its memory; begin it again")
        others = {"derivatives by entropy": entropy, "derivatives by values": values}
        given = [None if each is None else self._whole(name, each) for name, each in others.items()]
        self._native.end_sequence(self._whole("coefficients", coefficients), pending, *given)

    def _whole(self, name: str, coefficients: object) -> np.ndarray:
        """With the first tokens', which nothing predicts."""
        batch, length = self._shape
        whole = np.zeros(self._shape, np.float32)
        whole[:, 1:] = arrays.float_array(name, coefficients, (batch, length - 1))
        return whole.ravel()

    def __enter__(self) -> "Sequence":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Scores(NamedTuple):
    """What the head says of each token after the first, float32 [batch, sequence - 1]; 0 where it is not scored."""

    logprobs: np.ndarray  # in nats
    entropy: np.ndarray  # of the distributions that they are from
    values: np.ndarray | None  # before each of them; None where the bundle has no value head


class Sequences:
    """What a Session can do with sequences one by one; see Session."""

    has_pending_gradients: bool  # room for a gradient whose factor comes later, among others
    has_value_adapter: bool  # an adapter of the value head's own
    _begun: Sequence | None = None  # the last one

    @property
    def has_values(self) -> bool:
        """Whether the bundle was compiled with value_head."""
        return self._info["has_values"]

    @property
    def has_entropy_bonus(self) -> bool:
        """Whether it was compiled with entropy_bonus, so that a loss may depend on the entropy."""
        return self._info["has_entropy_bonus"]

    def log_probabilities(self, input_ids: object, labels: object) -> tuple[np.ndarray, np.ndarray]:
        """The log-probability that the model gives each label, and the entropy of the distribution that it is from.

        Both are float32 [batch, sequence], in nats, each at its label's place, 0 where there is none. Labels are as
        loss() has them, so nothing predicts the first of a row.
        """
        return self._session.log_probabilities(*arrays.token_arrays(input_ids, labels), 1.0, False, [])[:2]

    def scores(
        self,
        input_ids: object,
        mask: object = None,
        adapter: bool | Mapping[str, object] = True,
        temperature: float = 1.0,
    ) -> Scores:
        """The log-probability of each token after the first, the entropy of the distribution that it is from, and a
        value.

        mask: [batch, sequence], the tokens that are scored; the others have 0, and cost no head. None for all.
        adapter: False for the base model; or other values of all trainables, {PEFT key: array}. The session's own wait
            where it keeps gradients, so it needs return_gradients or accumulate.
        temperature: what logits are divided by.
        """
        check_text(self)
        ids = arrays.token_array("input_ids", input_ids)
        others: list[np.ndarray] = []
        if isinstance(adapter, Mapping):
            checked = arrays.named_arrays("trainable", adapter, self._shapes, complete=True)
            others = [checked[key].ravel() for key in self._shapes]
        labels = scored_labels(ids, mask)
        kept = above_zero("temperature", temperature)
        found = self._session.log_probabilities(ids, labels, kept, adapter is False, others)
        return Scores(*(None if each is None else each[:, 1:] for each in found))

    def logprobs(
        self,
        input_ids: object,
        mask: object = None,
        adapter: bool | Mapping[str, object] = True,
        temperature: float = 1.0,
    ) -> np.ndarray:
        """The first of scores()."""
        return self.scores(input_ids, mask, adapter, temperature).logprobs

    def sequence(self, input_ids: object, mask: object = None, temperature: float = 1.0) -> Sequence:
        """Runs a forward whose backward follows: `with session.sequence(ids, mask) as q`, where q has `logprobs`,
        `entropy` and `values` and takes coefficients by q.backward(c). Session.apply is the update, when all sequences
        of a step have added their gradients; the step holds the memory of one. Needs a session with accumulate=True.
        """
        check_text(self)
        ids = arrays.token_array("input_ids", input_ids)
        return Sequence(self, ids, scored_labels(ids, mask), above_zero("temperature", temperature))

    @checked
    def settle(self, factor: float) -> None:
        """Multiplies what q.backward(c, pending=True) has given by `factor`, and adds it to the step's gradient."""
        self._session.settle(float(factor))

    def apply(self) -> StepResult:
        """One update by the gradients of the sequences since the last one, clipped as the session clips.

        Of the result, loss and tokens are 0: the caller knows them.
        Raises mebp.Error, with nothing changed, where the gradient is not finite; it is forgotten then.
        """
        return StepResult(*self._session.apply())

    @contextmanager
    def by_value_adapter(self) -> Iterator[None]:
        """`with session.by_value_adapter():` computes with the value head's own adapter, and not the policy's: scores,
        sequences, updates, trainables() and load_adapter are that one's within.

        A step applies each once; until both have, a state cannot be saved. Needs a session with value_adapter=True.
        Raises mebp.Error where gradients of sequences wait to be applied.
        """
        self._session.use_value_adapter(True)
        try:
            yield
        except BaseException:
            self._session.discard()
            raise
        finally:
            self._session.use_value_adapter(False)

    def discard(self) -> None:
        """Forgets the gradients of the sequences since the last update."""
        self._session.discard()

    def gradients(self) -> dict[str, np.ndarray]:
        """What the last call that keeps gradients has left, or sequences so far, {PEFT key: float32 array}."""
        return {key: self._session.read_gradient(index) for index, key in enumerate(self._shapes)}
