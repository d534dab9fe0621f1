# SPDX-License-Identifier: Apache-2.0
"""Options from a YAML file, each by the name that it has on the command line."""

from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from mebp.errors import Error
from mebp.files import read_text
from mebp.training.options import convert, find_name


def read_config(path: Path, kinds: Mapping[str, type]) -> dict[str, object]:
    """The options in `path`; `kinds` has the type of each that there may be, dashes in names written as underscores.

    An option without a value is as one left out. Raises mebp.Error, with the line, for what is invalid.
    """
    text = read_text(path, "check --config")
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return {}
        if not isinstance(root, yaml.MappingNode):
            raise Error(f"{path}:{_line(root)}: is not a list of options; write one on each line, such as lr: 2e-4")
        return _options(path, loader, root, kinds)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Error(f"{path}:{line}: is not YAML ({error.problem}); correct it") from error
    except RecursionError as error:
        raise Error(f"{path}: is nested too deep; write one option a line") from error
    except yaml.YAMLError as error:
        raise Error(f"{path}: is not YAML ({error}); correct it") from error


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node:
        if self.check_event(yaml.AliasEvent):  # a few of which can stand for more than any memory holds
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "an alias, which no option needs", mark)
        return super().compose_node(parent, index)


def _options(
    path: Path, loader: yaml.SafeLoader, root: yaml.MappingNode, kinds: Mapping[str, type]
) -> dict[str, object]:
    options: dict[str, object] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in root.value:
        where = f"{path}:{_line(key_node)}"
        written = str(key_node.value)
        name = _located(where, find_name, written, kinds)
        if name in lines:
            raise Error(f"{where}: '{written}' is given twice, first in line {lines[name]}; keep one")
        lines[name] = _line(key_node)
        try:
            value = loader.construct_object(value_node, deep=True)
        except ValueError as error:  # such as a day that no month has
            raise Error(f"{where}: {written} is {value_node.value} ({error}); correct it") from error
        if value is not None:
            options[name] = _located(where, convert, written, value, kinds[name])
    return options


def _located(where: str, check: Callable, *arguments: object) -> object:
    try:
        return check(*arguments)
    except Error as error:
        raise Error(f"{where}: {error}") from error


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1
