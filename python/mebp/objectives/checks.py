# SPDX-License-Identifier: Apache-2.0
"""Checks of the options of objectives."""

import math
from collections.abc import Collection, Iterable

from mebp.errors import Error


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Raises mebp.Error, with what there is, where `value` is none of `known`."""
    if value not in (known := list(known)):
        raise Error(f"{name} is '{value}'; choose {', '.join(known[:-1])} or {known[-1]}")


def check_number(
    name: str, value: object, at_least: float = -math.inf, above: float = -math.inf, at_most: float = math.inf
) -> None:
    """Raises mebp.Error where `value` is no finite number, or lies outside."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if is_number and at_least <= value <= at_most and value > above:
        return
    limits = [
        words
        for words, limit in (
            (f"of at least {at_least:g}", at_least),
            (f"above {above:g}", above),
            (f"of at most {at_most:g}", at_most),
        )
        if math.isfinite(limit)
    ]
    raise Error(f"{name} is {value}; give a finite number {' and '.join(limits)}")


def check_owned(chosen: Collection[str], known: Iterable[str], options: object) -> None:
    """Raises mebp.Error where an option called LOSS_..., which that loss type alone has, is given without it.

    chosen: the loss types that are used, of those that are `known`.
    """
    for loss_type in known:
        if loss_type not in chosen:
            names = [name for name in vars(options) if name.startswith(f"{loss_type}_")]
            check_unused(f"loss_type {', '.join(chosen)}", names, options, loss_type)


def check_unused(owner: str, names: Iterable[str], options: object, used_by: str) -> None:
    """Raises mebp.Error where one of these options is not its default: the objective would ignore it.

    owner: what was chosen, as an error calls it; used_by: what would use the option.
    """
    for name in names:
        if getattr(options, name) != type(options).__dataclass_fields__[name].default:
            raise Error(f"{name} does nothing with {owner}; leave it out, or choose {used_by}")
