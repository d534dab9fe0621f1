# SPDX-License-Identifier: Apache-2.0
"""What a session may be created with, as runtime/train/option_table.h has it, and as text for the runtime."""

import os
from collections.abc import Mapping
from functools import cache
from inspect import signature

import numpy as np

from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.files import user_path
from mebp.numbers import check_not_negative, unknown_argument


def above_zero(name: str, value: float | None) -> float:
    """The value, or 0 where it is None."""
    if value is None:
        return 0.0
    if not (isinstance(value, int | float | np.number) and 0 < value < float("inf")):
        raise Error(f"{name} is {value}; give a finite number above 0")
    return float(value)


@cache
def optimizer_option_kinds() -> dict[str, type]:
    """The type of each option that only some optimizers have, by its name: a tuple of numbers, or a str of some."""
    return {
        name.replace("-", "_"): str if choices else tuple if numbers > 1 else int if is_whole else float
        for name, numbers, is_whole, choices in load_runtime().optimizer_options()
    }


@cache
def option_kinds() -> dict[str, str]:
    """What each option is that every session has, by its name: a flag, count, number, size, path or choice."""
    return {name.replace("-", "_"): kind for name, _, kind, _, _ in load_runtime().session_options()}


def option_texts(given: Mapping[str, object]) -> dict[str, str]:
    """Of what is not None. Raises mebp.Error for a size that is none."""
    texts: dict[str, str] = {}
    for name, value in given.items():
        kind = option_kinds()[name]
        if value is None:
            continue
        if kind == "flag":
            texts[name] = "true" if value else "false"
        elif kind == "size":
            texts[name] = f"{byte_size(name, value)}B"
        elif kind == "path":
            texts[name] = os.fspath(user_path(value)) if value else ""
        else:
            texts[name] = str(float(value) if kind == "number" else value)
    return texts


def check_names(session: type, optimizer_options: Mapping[str, object]) -> None:
    """`session`: the class whose arguments there are beside these."""
    for name in optimizer_options:
        if name not in optimizer_option_kinds():
            raise Error(unknown_argument("Session", name, [*signature(session).parameters, *optimizer_option_kinds()]))


def optimizer_texts(given: Mapping[str, object], plan: Mapping[str, object], optimizer: str) -> dict[str, str]:
    """What is given, as a command line has it, and else the bundle's momentum where this is its optimizer."""
    planned = {"momentum": plan["momentum"]} if plan["optimizer"] == optimizer else {}
    return {name: _text(value) for name, value in {**planned, **given}.items() if value is not None}


def _text(value: object) -> str:
    return str(value) if np.ndim(value) == 0 else ",".join(map(str, value))


def default_optimizer() -> str:
    return load_runtime().optimizers()[0][0]


def takes_losses(optimizer: str) -> bool:
    """Whether it takes losses instead of a gradient. Raises mebp.Error for one that this build does not have."""
    known = dict(load_runtime().optimizers())
    if optimizer not in known:
        raise Error(f"optimizer '{optimizer}' is not in this build; choose {', '.join(known)}")
    return known[optimizer]


def check_options(threads: int | None, lr: float, weight_decay: float, clip: float | None) -> None:
    if threads is not None and threads < 1:
        raise Error(f"threads is {threads}; give at least 1, or leave it out for all")
    check_not_negative("lr", lr)
    check_not_negative("weight_decay", weight_decay)
    if clip is not None and not (np.isfinite(clip) and clip > 0):
        raise Error(f"clip is {clip}; give a finite number above 0, or None for no clipping")


def byte_size(name: str, size: int | str | None) -> int:
    """A size in bytes, given as a number of them or as text such as "128MiB"; 0 for None."""
    if size is None:
        return 0
    if not isinstance(size, str):
        size = f"{size}B"
    try:
        return load_runtime().byte_size(size)
    except ValueError as wrong:
        raise Error(f"{name} {size} {wrong}") from None
