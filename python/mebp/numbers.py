# SPDX-License-Identifier: Apache-2.0
"""Checks of the numbers and other arguments that callers hand in."""

import inspect
import math
import operator
import os
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from mebp.errors import Error
from mebp.words import listed

P = ParamSpec("P")
R = TypeVar("R")
_IN_WORDS: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a string",
    bytes: "bytes",
    os.PathLike: "a path",
    Sequence: "a list",
    Collection: "a list",
    tuple: "a tuple",
    Mapping: "a dict",
    Callable: "a function",
    None: "None",
    NoneType: "None",
}

LARGEST_SCORE = 1e30  # of rewards and advantages: float32 has room for its products with what a loss is made of


def as_float(value: object) -> float | None:
    """Infinity for an integer beyond all floats, and None for what is not a number."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


def whole_number(name: str, value: object, at_least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = at_least - 1
    if number < at_least:
        raise Error(f"{name} is {value}; give a whole number of at least {at_least}")
    return number


def check_not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise Error(f"{name} is {value}; give a finite number of at least 0")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which raises Error for an argument that is not of its annotated type, is missing or is one too many:
    in Python's own errors, a caller would read about our code."""
    signature = inspect.signature(function)
    hints = {name: _hint(function, each.annotation) for name, each in signature.parameters.items()}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:
            raise Error(_unbound(function, signature, args, kwargs)) from None
        for name, value in given.arguments.items():
            check_argument(name, value, hints[name])
        return function(*args, **kwargs)

    return call


def check_fields(options: object) -> None:
    """Raises Error where a field of a dataclass is not of its annotated type."""
    hints = get_type_hints(type(options))
    for each in fields(options):
        check_argument(each.name, getattr(options, each.name), hints[each.name])


def check_argument(name: str, value: object, hint: object) -> None:
    if not _fits(value, hint):
        raise Error(f"{name} is {reprlib.repr(value)}; give {listed(dict.fromkeys(_described(hint)))}")
    if isinstance(value, str | os.PathLike) and "\0" in str(value):
        raise Error(f"{name} is {reprlib.repr(value)}, which has a character NUL; leave it out")


def _hint(function: Callable, annotation: object) -> object:
    """The type that is written, where it can be known without what only a type checker imports."""
    if not isinstance(annotation, str):
        return object if annotation is inspect.Parameter.empty else annotation
    try:
        return eval(annotation, function.__globals__)
    except NameError:
        return object


def _fits(value: object, hint: object) -> bool:
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in arguments)
    if hint is None or hint is NoneType:
        return value is None
    if hint in (int, float):
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    if origin is Literal:
        return value in arguments
    if not isinstance(origin, type) or origin is object:
        return True
    if origin is Callable or origin.__name__ == "Callable":
        return callable(value)
    if not isinstance(value, origin) or (isinstance(value, str | bytes) and origin not in (str, bytes, object)):
        return False
    if issubclass(origin, Mapping):
        return not arguments or all(_fits(k, arguments[0]) and _fits(v, arguments[1]) for k, v in value.items())
    if issubclass(origin, Collection) and arguments and origin is not tuple:
        return all(_fits(each, arguments[0]) for each in value)
    return True


def _described(hint: object) -> list[str]:
    """What a caller may give, in words."""
    if get_origin(hint) in (Union, UnionType):
        return [words for each in get_args(hint) for words in _described(each)]
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    words = _IN_WORDS.get(origin, getattr(origin, "__name__", str(origin)))
    of = _IN_WORDS.get(arguments[-1], "").removeprefix("a ") if words in ("a list", "a dict") and arguments else ""
    return [f"{words} of {of}s" if of else words]


def _unbound(function: Callable, signature: inspect.Signature, args: tuple, kwargs: Mapping[str, object]) -> str:
    """Why these arguments are not those of the function."""
    name = function.__qualname__.removesuffix(".__init__")
    takes = {key: each for key, each in signature.parameters.items() if key != "self"}
    placed = len(args) - ("self" in signature.parameters)
    by_place = [key for key, each in takes.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    needed = [key for key, each in takes.items() if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    unknown = [key for key in kwargs if key not in takes]
    if unknown and not any(each.kind is each.VAR_KEYWORD for each in takes.values()):
        return unknown_argument(name, unknown[0], takes)
    if placed > len(by_place):
        return f"{name} takes {listed(by_place, 'and')} without their names; give what follows by its name"
    missing = [key for key in needed if key not in kwargs and key not in by_place[:placed]]
    if missing:
        return f"{name} needs {listed(missing, 'and')}; give {'it' if len(missing) == 1 else 'them'}, too"
    return f"{name} is given {next(key for key in by_place[:placed] if key in kwargs)} twice; give it once"


def unknown_argument(function: str, name: str, known: Collection[str]) -> str:
    """What to say of an argument that the function does not have."""
    from mebp.training.foreign_names import option_hint

    options = [key.replace("_", "-") for key in known]
    hint = option_hint(name, options, lambda option: option.replace("-", "_"))
    return f"{function} has no argument '{name}'; {hint or 'there are ' + ', '.join(known)}"
