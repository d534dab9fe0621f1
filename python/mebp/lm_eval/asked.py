# SPDX-License-Identifier: Apache-2.0
"""What a task of lm-evaluation-harness asks a model to write, and how."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from mebp.words import listed

# The first that is there says how many tokens there may be.
_MOST = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
_OTHERS = ("until", "do_sample")


@dataclass(frozen=True)
class Asked:
    text: str
    options: Mapping[str, object]  # as the task has them
    most: int  # new tokens
    ends: Collection[int]  # tokens that end the answer
    stops: Sequence[str]  # texts that end it
    sampling: Mapping[str, object]  # as Session.generate takes it

    @classmethod
    def read(
        cls, text: str, options: Mapping[str, object], most: int, tokenizer: Tokenizer, end_of_text: int
    ) -> "Asked":
        """most: where the task does not say. Raises mebp.Error for what would be left out in silence."""
        known = (*_MOST, *_SAMPLING, *_OTHERS)
        unknown = next((name for name in options if name not in known), None)
        if unknown is not None:
            raise Error(f"generation_kwargs: {unknown} is not read; leave it out, or choose {listed(known)}")
        until = options.get("until") or []
        stops = [stop for stop in ([until] if isinstance(until, str) else until) if stop]
        marks = {stop: tokenizer.backend.token_to_id(stop) for stop in stops}
        special = {stop for stop, index in marks.items() if index in tokenizer.special_tokens}  # no text has them
        ends = {*tokenizer.stop_tokens, end_of_text, *(marks[stop] for stop in special)}
        given = next((options[name] for name in _MOST if options.get(name) is not None), most)
        sampling = {name: options[name] for name in _SAMPLING if options.get(name) is not None}
        if options.get("do_sample") is False or not sampling.get("temperature"):
            # The likeliest token each time, whatever else a task says of draws.
            sampling = {name: value for name, value in sampling.items() if name == "repetition_penalty"}
        return cls(text, options, int(given), ends, [stop for stop in stops if stop not in special], sampling)

    @property
    def draws(self) -> bool:
        return "temperature" in self.sampling

    def cut(self, written: str) -> str:
        """Before the first text that ends it."""
        for stop in self.stops:
            written = written.split(stop)[0]
        return written
