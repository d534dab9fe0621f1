# SPDX-License-Identifier: Apache-2.0
"""The options that objectives other than sft have of their own, by TRL's names: the one table of them."""

from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import get_args, get_origin, get_type_hints

from mebp.errors import Error
from mebp.objectives.pairs import DPOOptions

KINDS: Mapping[str, type] = {"dpo": DPOOptions}

# What each is, and what the command line calls its value.
_HELPS = {
    "loss_type": ("NAME", "loss, by TRL's name, or several with commas; docs/objectives.md lists them"),
    "loss_weights": ("X,...", "weights of several losses (default: 1 each)"),
    "beta": ("X", "how much the reference counts"),
    "label_smoothing": ("X", "share of pairs that are taken for wrongly labelled"),
    "f_divergence_type": ("NAME", "divergence from the reference"),
    "f_alpha_divergence_coef": ("X", "alpha of the alpha divergence"),
    "ld_alpha": ("X", "weight of tokens beyond the shorter completion's length (default: 1)"),
    "discopop_tau": ("X", "temperature of DiscoPOP"),
}
_WITHOUT = {"use_weighting"}  # what the head does not compute


def objective_kinds() -> dict[str, type]:
    """The type of each option, by its name."""
    return {name: kind for options in KINDS.values() for name, kind in _kinds_of(options).items()}


def objective_helps() -> list[tuple[str, str, str]]:
    """Name, what its value is called, and help of each."""
    found: dict[str, list[str]] = {}
    for objective, options in KINDS.items():
        for each in fields(options):
            if each.name not in _WITHOUT:
                default = "" if each.default is None else f"{each.default} with {objective}"
                found.setdefault(each.name, []).append(default)
    helps = []
    for name, defaults in found.items():
        value, text = _HELPS[name]
        stated = ", ".join(filter(None, defaults))
        helps.append((name, value, f"{text} (default: {stated})" if stated else text))
    return helps


def objective_options(objective: str, given: Mapping[str, object]) -> dict[str, object]:
    """`given`, checked to be what this objective has, with lists made of text with commas.

    Raises mebp.Error for one of another objective and for a value that is none.
    """
    known = _kinds_of(KINDS[objective]) if objective in KINDS else {}
    for name in given:
        if name not in known:
            having = [other for other, options in KINDS.items() if name in _kinds_of(options)]
            flag = f"--{name.replace('_', '-')}"
            raise Error(f"{flag} is an option of --objective {' and '.join(having)}, and this is {objective}")
    options = {name: _listed(name, value) for name, value in given.items()}
    if objective in KINDS:
        KINDS[objective](**options)  # which checks the values
    return options


def _listed(name: str, value: object) -> object:
    if name == "loss_type" and isinstance(value, str) and "," in value:
        return tuple(part.strip() for part in value.split(","))
    if name == "loss_weights" and isinstance(value, str):
        try:
            return tuple(float(part) for part in value.split(","))
        except ValueError:
            raise Error(f"loss_weights is '{value}'; give numbers with commas between them") from None
    return value


def _kinds_of(options: type) -> dict[str, type]:
    hints = get_type_hints(options)
    return {each.name: _plain(hints[each.name]) for each in fields(options) if each.name not in _WITHOUT}


def _plain(hint: object) -> type:
    """float of `float | None`; what may be a list is text on the command line."""
    choices = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    kinds = [kind for kind in choices if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], type) else str
