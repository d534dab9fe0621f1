# SPDX-License-Identifier: Apache-2.0
"""Rewards that can be checked, with TRL's signature: mebp train --objective grpo --reward examples/rewards.py:NAME."""

import re

WORDS = 10


def text_of(completion: str | list[dict]) -> str:
    """A completion is text after a text, and messages after messages."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def one_short_sentence(completions: list, **columns: object) -> list[float]:
    """1 for an answer of a single sentence with WORDS words; less for each sentence and each word more or fewer."""
    rewards = []
    for text in map(text_of, completions):
        sentences = len(re.findall(r"[.!?](?:\s|$)", text))
        words = len(text.split())
        rewards.append(max(0.0, 1 - abs(sentences - 1) / 4) * max(0.0, 1 - abs(words - WORDS) / (4 * WORDS)))
    return rewards
