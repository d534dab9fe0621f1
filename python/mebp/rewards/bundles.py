# SPDX-License-Identifier: Apache-2.0
"""Rewards that are other bundles: another model reads what was written, and judges it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mebp.data.forms import read_tools
from mebp.data.prompt_text import PromptText, PromptTokens
from mebp.errors import Error
from mebp.files import user_path
from mebp.rewards.sampled import Given, Progress, Sampled
from mebp.session import Session
from mebp.tokenizer import Tokenizer


class BundleReward:
    """What a bundle's value head gives after a completion's last token; of a bundle without one, the mean
    log-probability of the completion's tokens, in nats.

    It reads text by its own tokenizer, and the model's tokens where the text gives no others.
    """

    def __init__(self, bundle: Path, adapter: Path | None = None) -> None:
        self.name = bundle.stem
        try:
            self._session = Session(bundle, forward_only=True)
            if adapter:
                self._load(adapter)
            self._tokens = PromptTokens([bundle], Tokenizer(bundle), self._session.vocabulary)
        except Error as error:
            raise Error(f"reward {self.name}: {error}") from error

    def _load(self, adapter: Path) -> None:
        if self._session.has_values and (adapter / "value_adapter.safetensors").exists():
            raise Error(
                f"{adapter}: has its value head on an adapter of its own, which does not judge; take an adapter that "
                "was trained with --value-model shared, or a bundle without --value-head"
            )
        self._session.load_adapter(adapter)

    def __call__(self, batch: Sequence[Sampled], progress: Progress) -> Given:
        return Given([self._judge(one) for one in batch])

    def _judge(self, one: Sampled) -> float:
        try:
            prompt, completion = self._ids(one)
        except Error as error:
            raise Error(f"reward {self.name}: {error}") from error
        ids = np.array([[*prompt, *completion]], dtype=np.int32)
        # A value stands before the token that follows it, so another one has to follow the last.
        longest = self._session.max_sequence - self._session.has_values
        if ids.size > longest:
            raise Error(
                f"reward {self.name}: {one.where} has {ids.size:,} tokens with its prompt, and the bundle takes "
                f"{longest:,}; compile it with a longer --seq-len"
            )
        if self._session.has_values:
            followed = np.append(ids, ids[:, -1:], axis=1)
            last = np.arange(followed.size)[None] == ids.size
            return float(self._session.scores(followed, last).values[0, -1])
        mask = np.arange(ids.size)[None] >= len(prompt)
        return float(self._session.logprobs(ids, mask)[mask[:, 1:]].mean())

    def _ids(self, one: Sampled) -> tuple[Sequence[int], Sequence[int]]:
        where, written = one.prompt.where, one.prompt.written
        tools = read_tools(where, dict(one.prompt.columns))
        ((prompt, _),) = self._tokens.read([PromptText(where, written, tools)])
        if np.array_equal(prompt, one.prompt.ids):
            return prompt, self._tokens.checked(one.where, [int(each) for each in one.ids], "the completion")
        followed = PromptText(one.where, written, tools, {"the completion": one.completion})
        ((prompt, (completion,)),) = self._tokens.read([followed])
        return prompt, completion


def load_bundle(written: str) -> BundleReward:
    """NAME.mebp, or NAME.mebp:ADAPTER with a PEFT adapter's folder."""
    bundle, _, adapter = written.partition(".mebp")
    return BundleReward(user_path(f"{bundle}.mebp"), user_path(adapter[1:]) if adapter else None)
