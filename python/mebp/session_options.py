# SPDX-License-Identifier: Apache-2.0
"""What a session may be created with."""

import numpy as np

from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.numbers import check_not_negative

OWN_DEFAULT = -1.0  # MEBP_OWN_DEFAULT of mebp.h: the optimizer's own value


def above_zero(name: str, value: float | None) -> float:
    """The value, or 0 where it is None: the optimizer's own."""
    if value is None:
        return 0.0
    if not (isinstance(value, int | float | np.number) and 0 < value < float("inf")):
        raise Error(f"{name} is {value}; give a finite number above 0")
    return float(value)


def momentum_of(given: float | None, plan: dict, optimizer: str) -> float:
    """What is given, or else the bundle's own where this is its optimizer."""
    if given is not None:
        return given
    return plan["momentum"] if plan["optimizer"] == optimizer else 0.0


_REFRESHES = ("sketch", "svd")  # by their numbers in mebp.h


def refresh_number(name: str | None) -> float:
    if name is None:
        return 0.0
    if name not in _REFRESHES:
        raise Error(f"galore_refresh is '{name}'; choose {' or '.join(_REFRESHES)}")
    return float(_REFRESHES.index(name))


def default_optimizer() -> str:
    return load_runtime().optimizers()[0][0]


def takes_losses(optimizer: str) -> bool:
    """Whether it takes losses instead of a gradient. Raises mebp.Error for one that this build does not have."""
    known = dict(load_runtime().optimizers())
    if optimizer not in known:
        raise Error(f"optimizer '{optimizer}' is not in this build; choose {', '.join(known)}")
    return known[optimizer]


def check_options(
    threads: int | None,
    lr: float,
    betas: tuple[float, float] | None,
    eps: float | None,
    weight_decay: float,
    clip: float | None,
) -> None:
    if threads is not None and threads < 1:
        raise Error(f"threads is {threads}; give at least 1, or leave it out for all")
    for name, value in {"lr": lr, "eps": eps, "weight_decay": weight_decay}.items():
        if value is not None:
            check_not_negative(name, value)
    if clip is not None and not (np.isfinite(clip) and clip > 0):
        raise Error(f"clip is {clip}; give a finite number above 0, or None for no clipping")
    if betas is not None and not (len(betas) == 2 and all(0 <= beta < 1 for beta in betas)):
        raise Error(f"betas are {betas}; each must be at least 0 and below 1")


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
