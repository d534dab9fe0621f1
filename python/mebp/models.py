# SPDX-License-Identifier: Apache-2.0
"""Which of transformers' model types can be trained, as bench/models.py found by trying each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mebp.files import read_json

TABLE = Path(__file__).with_name("models.json")

OUTCOMES = {
    "exact": "trained exactly",
    "wrong": "gradients disagree",
    "unverified": "trained, but not compared with another implementation",
    "refused": "refused",
    "failed": "failed",
    "untried": "not tried",
}


@dataclass(frozen=True)
class PublishedModel:
    """What came of a tiny random model that has a published configuration but for its sizes.

    source: the public repository, the path in it and the commit where the configuration was read; layers: the kinds of
    layers that were tried, where it has several.
    """

    name: str
    source: str
    outcome: str
    reason: str = ""
    layers: str = ""


@dataclass(frozen=True)
class ModelType:
    """What came of tiny random models of one type: one of OUTCOMES, and why, where it is not exact. It is where all
    are, with each kind of layers and with each published configuration.

    gradients: how many were compared with float64; worst: the largest relative error among them, and those of the other
    configurations; text: how many of the first 32 tokens that it writes greedily are transformers', up to the first
    that is not; configurations: how many are exact, this one and others; others: why the rest is not; layers: the kinds
    of layers that were tried, where it has several or names the one.
    """

    name: str
    outcome: str
    reason: str = ""
    gradients: int = 0
    worst: float = 0.0
    text: int = 0
    configurations: int = 0
    others: str = ""
    layers: str = ""
    published: Sequence[PublishedModel] = ()


@dataclass(frozen=True)
class Models:
    """The types that were tried, in alphabetical order, of the `known` ones that this transformers has. One for each
    task, where a type has several."""

    transformers: str
    known: int
    types: Sequence[ModelType]

    def count(self, outcome: str) -> int:
        return sum(each.outcome == outcome for each in self.types)

    def summary(self) -> str:
        counts = [f"{self.count(outcome)} {text}" for outcome, text in OUTCOMES.items() if self.count(outcome)]
        exact = [each for each in self.types if each.outcome == "exact"]
        if configurations := sum(each.configurations for each in exact):
            types = {each.name.split(", ")[0] for each in exact}
            counts[0] += f" ({len(types)} types) in {configurations} configurations"
        of = "" if len(self.types) == self.known else f" of {self.known}"
        return f"{len(self.types)}{of} model types and tasks of transformers {self.transformers}: {', '.join(counts)}"


def tried_models(table: Path = TABLE) -> Models:
    """What this version was tried with. Raises mebp.Error where the package is damaged."""
    found = read_json(table, "install mebp again")
    return Models(found["transformers"], found["known"], [read_type(each) for each in found["types"]])


def read_type(entry: Mapping) -> ModelType:
    """Of an entry of the table, or of `mebp models --json`."""
    published = tuple(PublishedModel(**each) for each in entry.get("published", ()))
    return ModelType(**{**entry, "published": published})
