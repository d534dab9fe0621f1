# SPDX-License-Identifier: Apache-2.0
"""Options from a YAML file, each by the name that it has on the command line."""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import yaml

from mebp.errors import Error
from mebp.files import read_text
from mebp.training.options import convert, find_name
from mebp.training.trust import ALLOW_CODE, check_trusted

_MOST = 1 << 16  # characters; a hundred lines have some thousand, and a megabyte may take PyYAML 15 s
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_DEEPEST = 10  # lists in one another
_NOTHING = ("", "~", "null")


def read_config(
    path: Path, kinds: Mapping[str, type], given: Collection[str] = (), allow_code: bool = False
) -> dict[str, object]:
    """The options in `path`; `kinds` has the type of each that there may be, dashes in names written as underscores.

    given: the options that are on the command line, too; what the file says of these does not count. allow_code:
    whether it may have code run. An option without a value is as one left out. Raises mebp.Error, with the line, for
    what is invalid, and for what only a command line can ask for.
    """
    text = read_text(path, "check --config")
    if len(text) > _MOST:
        raise Error(f"{path}: is larger than {_MOST >> 10} KiB; write one option on each line, such as lr: 2e-4")
    try:
        root = _Loader(text).get_single_node()
        if root is None:
            return {}
        if not isinstance(root, yaml.MappingNode):
            raise Error(f"{path}:{_line(root)}: is not a list of options; write one on each line, such as lr: 2e-4")
        options = _options(path, root, kinds)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Error(f"{path}:{line}: is not YAML ({error.problem}); correct it") from error
    except RecursionError as error:
        raise Error(f"{path}: is nested too deep; write one option a line") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the latter for escapes of what is no character
        raise Error(f"{path}: is not YAML ({error}); correct it") from error
    chosen = {name: each for name, each in options.items() if name not in given}
    for name, (where, value) in chosen.items():
        _located(where, check_trusted, name, value, allow_code)
    return {name: value for name, (_, value) in chosen.items()}


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node:
        event = self.peek_event()
        mark = event.start_mark
        if isinstance(event, yaml.AliasEvent):  # a few of which can stand for more than any memory holds
            raise yaml.composer.ComposerError(None, None, "an alias, which no option needs", mark)
        if getattr(event, "tag", None) is not None:
            raise yaml.composer.ComposerError(None, None, "a tag, which no option needs", mark)
        return super().compose_node(parent, index)

    def fetch_flow_collection_start(self, kind: type) -> None:
        if self.flow_level == _DEEPEST:  # a thousand levels take PyYAML seconds
            raise yaml.scanner.ScannerError(None, None, "nested too deep", self.get_mark())
        super().fetch_flow_collection_start(kind)


def _options(path: Path, root: yaml.MappingNode, kinds: Mapping[str, type]) -> dict[str, tuple[str, object]]:
    """Each with where it is."""
    options: dict[str, tuple[str, object]] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in root.value:
        where = f"{path}:{_line(key_node)}"
        if not isinstance(key_node, yaml.ScalarNode):
            raise Error(f"{where}: has a list or a table where the name of an option goes; write one option a line")
        if key_node.value.replace("-", "_") == ALLOW_CODE:
            raise Error(f"{where}: a file cannot allow itself to run code; give --allow-code on the command line")
        name = _located(where, find_name, key_node.value, kinds)
        if name in lines:
            raise Error(f"{where}: '{key_node.value}' is given twice, first in line {lines[name]}; keep one")
        lines[name] = _line(key_node)
        value = _value(where, name, value_node)
        if value is not None:
            options[name] = where, _located(where, convert, name, value, kinds[name])
    return options


def _value(where: str, name: str, node: yaml.Node) -> object:
    """What options are made of: text, numbers, true and false, and lists of those. YAML has more, such as dates, and
    1:30, which is 90 in it."""
    if isinstance(node, yaml.SequenceNode):
        if not all(isinstance(each, yaml.ScalarNode) for each in node.value):
            raise Error(f"{where}: {name} is a list of lists or tables; give one value, or a list of them")
        return [_scalar(where, name, each) for each in node.value]
    if not isinstance(node, yaml.ScalarNode):
        raise Error(f"{where}: {name} is a table of its own; give one value, or a list of them")
    return _scalar(where, name, node)


def _scalar(where: str, name: str, node: yaml.ScalarNode) -> object:
    text = node.value
    odd = next((each for each in text if each not in "\n\t" and unicodedata.category(each) in ("Cc", "Cs")), None)
    if odd is not None:
        raise Error(f"{where}: {name} has the character U+{ord(odd):04X}, which no option needs; leave it out")
    if node.style is not None:  # in quotes, or a block
        return text
    if text.lower() in _NOTHING:
        return None
    if text.lower() in yaml.SafeLoader.bool_values:
        return yaml.SafeLoader.bool_values[text.lower()]
    if _DECIMAL.fullmatch(text):
        return float(text)
    if not _WHOLE.fullmatch(text):
        return text
    try:
        return int(text)
    except ValueError:  # Python refuses to read thousands of digits
        raise Error(f"{where}: {name} is a number of {len(text):,} digits; give a smaller one") from None


def _located(where: str, check: Callable, *arguments: object) -> object:
    try:
        return check(*arguments)
    except Error as error:
        raise Error(f"{where}: {error}") from error


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1
