# SPDX-License-Identifier: Apache-2.0
"""A bundle with its adapter as a model of lm-evaluation-harness."""

import json
import os
from collections.abc import Iterator, Sequence
from itertools import groupby

import lm_eval.models  # noqa: F401, its own models, which it looks for only while none is registered
import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from mebp.arrays import IGNORED_LABEL
from mebp.building.using import find_used
from mebp.compile_options import CompileOptions
from mebp.data.chat_template import ChatTemplate
from mebp.data.dataset import Row
from mebp.errors import Error
from mebp.exporter.template_files import DEFAULT, read_templates
from mebp.files import user_path
from mebp.judging.measuring import score_rows
from mebp.lm_eval.asked import Asked
from mebp.sequences import check_text
from mebp.session import Session
from mebp.tokenizer import Tokenizer, begun
from mebp.words import say

_MOST_LOGITS = 1 << 25  # numbers that a batch of continuations may have at once
_PIECE = 32  # tokens that are looked at together where they are more

Tokens = tuple[tuple[str, str] | None, list[int], list[int]]


@register_model("mebp")
class MebpLM(TemplateLM):
    """Answers the harness's requests by a session, with as many rows side by side as the bundle was compiled for."""

    def __init__(
        self,
        bundle: str | os.PathLike[str],
        adapter: str | os.PathLike[str] | None = None,
        *,
        base: str | None = None,
        device: str | None = None,
        threads: int | None = None,
        batch_size: object = None,
        max_batch_size: object = None,
    ) -> None:
        """bundle, adapter, base: as `mebp eval` takes them. device: cpu or mlx; the harness's own default, cuda:0, is
        cpu.

        The harness's batch sizes change nothing: no more rows run at once than the bundle was compiled for, and no
        figure depends on how many they are. Raises mebp.Error where the bundle or the adapter cannot be used.
        """
        super().__init__()
        folder = None if adapter is None else user_path(adapter)
        used = find_used(user_path(bundle), folder, base, CompileOptions())
        here = "cpu" if device is None or device.startswith("cuda") else device
        self._session = Session(used.bundle, device=here, threads=threads, forward_only=True)
        check_text(self._session)
        if used.adapter is not None:
            self._session.load_adapter(used.adapter)
        self._text = Tokenizer(used.bundle)
        self._template: ChatTemplate | None = None
        self._has_told = False

    @property
    def eot_token_id(self) -> int:
        named = self._text.named_special_tokens.get("eos_token")
        index = None if named is None else self._text.backend.token_to_id(named)
        return self._text.end_of_text if index is None else index

    @property
    def prefix_token_id(self) -> int:
        named = self._text.named_special_tokens.get("bos_token")
        index = None if named is None else self._text.backend.token_to_id(named)
        return self.eot_token_id if index is None else index

    @property
    def max_length(self) -> int:
        """Tokens that one may follow: each row of a bundle has the token that is predicted, too."""
        return self._session.max_sequence - 1

    @property
    def max_gen_toks(self) -> int:
        """New tokens, where a task does not say."""
        return 256

    @property
    def tokenizer_name(self) -> str:
        return self._session.path.name

    def get_model_info(self) -> dict[str, object]:
        """What the harness writes beside its results."""
        return {"model_bundle": self._session.path.name, "model_max_length": self.max_length}

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: object) -> list[int]:
        ids = self._text.encode(string)
        return ids if add_special_tokens is False else begun(ids, self._text.before_text)

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        if not chat_template:
            return None
        templates = read_templates(self._text.folder, self._text.settings("tokenizer_config.json"))
        name = chat_template if isinstance(chat_template, str) else DEFAULT
        return templates.get(name, "")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Without a generation prompt, up to the end of what the last turn says, which the model goes on with."""
        if self._template is None:
            self._template = ChatTemplate(self._text)
        text = self._template.render(chat_history, add_generation_prompt=add_generation_prompt)
        if add_generation_prompt:
            return text
        last = chat_history[-1]["content"].strip()
        if last not in text:
            raise Error("the chat template changes what the last turn says, so the model cannot go on with it; ask "
                        "without a turn of the assistant at the end")  # fmt: skip
        return text[: text.rindex(last) + len(last)]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Of whole texts, a window after another; each token is predicted once."""
        found = []
        for request in requests:
            (text,) = request.args
            windows = get_rolling_token_windows(
                self.tok_encode(text), self.prefix_token_id, max_seq_len=self.max_length, context_len=1
            )
            rows = [_row(*make_disjoint_window(window)) for window in windows]
            total = sum(each.log_probability for each in score_rows(self._session, rows))
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), total)
            found.append(total)
        return found

    def _loglikelihood_tokens(
        self, requests: list[Tokens], disable_tqdm: bool = False, **kwargs: object
    ) -> list[tuple[float, bool]]:
        for _, _, continuation in requests:
            if len(continuation) > self.max_length:
                raise Error(
                    f"a continuation has {len(continuation):,} tokens, and the bundle takes {self.max_length:,} with "
                    "what is before it; compile it with a longer --seq-len"
                )
        rows = [_row(before, continuation, self.max_length + 1) for _, before, continuation in requests]
        found: list[tuple[float, bool]] = [(0.0, True)] * len(rows)
        order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
        for start in range(0, len(order), self._session.max_batch):
            chosen = order[start : start + self._session.max_batch]
            for index, answer in zip(chosen, self._likelihoods([rows[index] for index in chosen]), strict=True):
                found[index] = answer
        for (asked, _, _), answer in zip(requests, found, strict=True):
            if asked is not None:
                self.cache_hook.add_partial("loglikelihood", asked, answer)
        return found

    def _likelihoods(self, rows: Sequence[Row]) -> Iterator[tuple[float, bool]]:
        """Of a batch, the longest first: the log-probability of what counts, and whether each token of it is the
        likeliest."""
        firsts = [_first(row) for row in rows]
        begin, end = min(firsts) - 1, len(rows[0]) - 1
        if len(rows) * (end - begin) * self._session.vocabulary > _MOST_LOGITS:
            for row, scored in zip(rows, score_rows(self._session, rows), strict=True):
                yield scored.log_probability, self._is_likeliest(row)
            return
        ids = np.zeros((len(rows), end), np.int32)
        for place, row in enumerate(rows):
            ids[place, : len(row) - 1] = row.ids[:-1]
        logits = self._session.logits(ids, begin, end - begin)
        for row, first, own in zip(rows, firsts, logits, strict=True):
            own = own[first - 1 - begin : len(row) - 1 - begin].astype(np.float64)
            tokens = row.ids[first:]
            highest = own.max(axis=1)
            chosen = own[np.arange(len(tokens)), tokens]
            likely = chosen - highest - np.log(np.exp(own - highest[:, None]).sum(axis=1))
            yield float(likely.sum()), bool((own.argmax(axis=1) == tokens).all())

    def _is_likeliest(self, row: Row) -> bool:
        for first in range(_first(row), len(row), _PIECE):
            tokens = row.ids[first : first + _PIECE]
            logits = self._session.logits(row.ids[None, : first + len(tokens) - 1], first - 1, len(tokens))[0]
            if not (logits.argmax(axis=1) == tokens).all():
                return False
        return True

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        asked = [Asked.read(*request.args, self.max_gen_toks, self._text, self.eot_token_id) for request in requests]
        prompts = [self._prompt(each) for each in asked]

        def alike(index: int) -> tuple[int, str]:
            return len(prompts[index]), json.dumps(asked[index].options, sort_keys=True)

        found = [""] * len(requests)
        for _, several in groupby(sorted(range(len(requests)), key=alike), alike):
            indices = list(several)
            # Draws belong to a call, so what is drawn is drawn alone.
            rows = 1 if asked[indices[0]].draws else self._session.max_batch
            for start in range(0, len(indices), rows):
                chosen = indices[start : start + rows]
                for index, text in zip(chosen, self._write(chosen, asked, prompts), strict=True):
                    self.cache_hook.add_partial("generate_until", requests[index].args, text)
                    found[index] = text
        return found

    def _prompt(self, asked: Asked) -> list[int]:
        """In tokens, of which the last stay where there are too many, as in the harness's own models."""
        room = self._session.max_positions - asked.most
        if room < 1:
            option = "--generate-len" if self._session.generates else "--seq-len"
            raise Error(
                f"a task asks for {asked.most:,} new tokens, and the bundle takes {self._session.max_positions:,} with "
                f"the prompt; set max_gen_toks, or compile with a longer {option}"
            )
        ids = self.tok_encode(asked.text)
        if len(ids) > room and not self._has_told:
            self._has_told = True
            say(f"mebp: note: a prompt has {len(ids):,} tokens, of which the last {room:,} have room", error=True)
        return ids[-room:]

    def _write(self, chosen: Sequence[int], asked: Sequence[Asked], prompts: Sequence[Sequence[int]]) -> Iterator[str]:
        one = asked[chosen[0]]
        ids = [list(prompts[index]) for index in chosen]
        written = self._session.generate(ids, one.most, one.ends, stop=one.stops or None, **one.sampling)
        for row in written[:, len(ids[0]) :].tolist():
            end = next((place for place, token in enumerate(row, 1) if token in one.ends), len(row))
            yield one.cut(self._text.decode(row[:end]))


def _row(before: Sequence[int], continuation: Sequence[int], longest: int | None = None) -> Row:
    """Of which the continuation counts; what is too long loses its beginning."""
    ids = np.array([*before, *continuation], np.int32)
    labels = ids.copy()
    labels[: len(before)] = IGNORED_LABEL
    return Row(ids, labels) if longest is None else Row(ids[-longest:], labels[-longest:])


def _first(row: Row) -> int:
    """Where what counts begins."""
    return int(np.argmax(row.labels != IGNORED_LABEL))
