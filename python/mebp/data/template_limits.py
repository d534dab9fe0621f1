# SPDX-License-Identifier: Apache-2.0
"""Jinja for templates that come with a model: no attribute of Python's, and bounded steps, time and text."""

import re
import time
from collections.abc import Callable, Iterable, Iterator

from jinja2 import TemplateError, nodes
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

_MOST_STEPS = 250_000  # of all loops and calls of one rendering
_MOST_SECONDS = 10.0
_LONGEST = 16_000_000  # characters or elements of a value
_WIDEST = 1_000  # a number that pads or indents
_WIDE_FORMAT = re.compile(r"\d{4}|\*")

# What makes long texts of short ones, or does much work in one call.
_REMOVED_FILTERS = ("batch", "center", "pprint", "slice", "urlize", "wordwrap", "xmlattr")
_REMOVED_GLOBALS = ("cycler", "joiner", "lipsum")


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """An environment whose templates end: what goes beyond a limit raises TemplateError."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        for name in _REMOVED_FILTERS:
            del self.filters[name]
        for name in _REMOVED_GLOBALS:
            del self.globals[name]
        for name in ("format", "indent", "join", "replace"):
            self.filters[name] = self._bounded(name, self.filters[name])
        self.filters["_counted"] = self._counted
        self.filters["_checked"] = _checked
        self.begin()

    def begin(self) -> None:
        """To be called before each rendering."""
        self._steps, self._deadline = 0, time.monotonic() + _MOST_SECONDS

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """The same, with each loop counted and each joined text checked."""
        template = super()._parse(source, name, filename)
        for loop in list(template.find_all(nodes.For)):
            loop.iter = _filtered(loop.iter, "_counted")
        for text in list(template.find_all(nodes.Concat)):
            text.nodes = [_filtered(nodes.Concat(text.nodes, lineno=text.lineno), "_checked")]
        return template

    def call(self, context: object, function: object, *arguments: object, **named: object) -> object:
        self._step()
        method = getattr(function, "__wrapped__", function)  # Jinja wraps those of str that format
        owner = getattr(method, "__self__", None)
        if isinstance(function, LoopContext):  # of a recursive loop, which begins again with other values
            arguments = tuple(self._counted(values) for values in arguments)
        if isinstance(owner, str):
            _check_text_call(method.__name__, owner, arguments)
        return _checked(super().call(context, function, *arguments, **named))

    def call_binop(self, context: object, operator: str, left: object, right: object) -> object:
        self._step()
        if operator == "*":
            for many, times in ((left, right), (right, left)):
                if isinstance(times, int) and hasattr(many, "__len__") and len(many) * times > _LONGEST:
                    raise TemplateError("it repeats a value too often")
        if operator in ("*", "**") and any(
            isinstance(side, int) and side.bit_length() > 4096 for side in (left, right)
        ):
            raise TemplateError("it makes too large a number")
        if operator == "**" and isinstance(right, int) and abs(right) > _WIDEST:
            raise TemplateError("it makes too large a number")
        if operator == "%" and isinstance(left, str):
            _check_format(left)
        return _checked(super().call_binop(context, operator, left, right))

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise TemplateError(f"it takes more than {_MOST_STEPS:,} steps")
        if self._steps % 256 == 0 and time.monotonic() > self._deadline:
            raise TemplateError(f"it takes more than {_MOST_SECONDS:g} seconds")

    def _counted(self, values: Iterable) -> Iterable:
        # A loop asks a sequence for its length, which a generator would not tell.
        return _Counted(values, self._step) if hasattr(values, "__len__") else _counted(values, self._step)

    def _bounded(self, name: str, function: Callable) -> Callable:
        def bounded(*arguments: object, **named: object) -> object:
            self._step()
            given = [value for value in (*arguments, *named.values()) if not isinstance(value, str)]
            if name == "indent" and any(isinstance(value, int) and value > _WIDEST for value in given):
                raise TemplateError("it indents too far")
            texts = [value for value in (*arguments, *named.values()) if isinstance(value, str)]
            if name == "format":
                _check_format(texts[0] if texts else "")
            if name == "replace":
                _check_product(texts)
            if name == "join":
                joined = next((list(value) for value in given if _is_series(value)), [])
                _check_total(joined, texts)
            return _checked(function(*arguments, **named))

        # What Jinja passes to a filter besides its arguments is marked on the function.
        bounded.__dict__.update(function.__dict__)
        return bounded


class _Counted:
    def __init__(self, values: Iterable, step: Callable[[], None]) -> None:
        self._values, self._step = values, step

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator:
        return _counted(self._values, self._step)


def _counted(values: Iterable, step: Callable[[], None]) -> Iterator:
    for value in values:
        step()
        yield value


def _filtered(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _checked(value: object) -> object:
    if isinstance(value, str | list | tuple | dict) and len(value) > _LONGEST:
        raise TemplateError(f"it makes a value of more than {_LONGEST:,} characters")
    return value


def _is_series(value: object) -> bool:
    return isinstance(value, list | tuple | dict | set)


def _check_total(parts: list, texts: list[str]) -> None:
    between = max(map(len, texts), default=0)
    if sum(len(part) if isinstance(part, str) else between for part in parts) + len(parts) * between > _LONGEST:
        raise TemplateError(f"it makes a value of more than {_LONGEST:,} characters")


def _check_product(texts: list[str]) -> None:
    if len(texts) == 3 and texts[0].count(texts[1]) * len(texts[2]) > _LONGEST:
        raise TemplateError(f"it makes a value of more than {_LONGEST:,} characters")


def _check_format(text: str) -> None:
    if _WIDE_FORMAT.search(text):
        raise TemplateError("it pads a text too far")


def _check_text_call(name: str, text: str, arguments: tuple) -> None:
    """Methods of str whose result may be much longer than what they are given."""
    if name in ("center", "ljust", "rjust", "zfill", "expandtabs"):
        if any(isinstance(value, int) and value > _WIDEST for value in arguments):
            raise TemplateError("it pads a text too far")
    elif name in ("format", "format_map"):
        _check_format(text)
    elif name == "replace":
        _check_product([text, *(value for value in arguments[:2] if isinstance(value, str))])
    elif name == "join" and arguments and _is_series(arguments[0]):
        _check_total(list(arguments[0]), [text])
