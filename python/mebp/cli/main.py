# SPDX-License-Identifier: Apache-2.0
"""Picks the subcommand and turns every failure into one line and an exit status."""

import argparse
import itertools
import os
import re
import signal
import sys
import textwrap
from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import mebp
from mebp.distributed.launched import says_why
from mebp.errors import Error, reason
from mebp.files import user_path
from mebp.training.foreign_names import SAME, command_hint, option_hint, plain_name
from mebp.words import STANDARD_OUTPUT, listed, say

_COMMANDS = {
    "export": "export a Hugging Face model to ONNX without copying its weights",
    "train": "train an adapter on text or conversations",
    "data": "show what of some data counts in the loss, or make data of chats that apps export",
    "eval": "measure loss and perplexity on text or conversations",
    "judge": "ask questions with and without an adapter: what it learned, and what the model forgot",
    "rollout": "let a model write completions of prompts, for rewards to score",
    "verify": "compare a bundle's gradients with those of transformers and PEFT in float64",
    "generate": "continue prompts, greedily or by sampling",
    "chat": "talk with a model, turn by turn",
    "merge": "merge an adapter into a model for transformers or llama.cpp",
    "ollama": "merge an adapter, make a model of it in Ollama and ask it one question",
    "adapter": "convert an adapter between PEFT, MLX-LM and llama.cpp",
    "models": "list which types of models can be trained, and why others are refused",
    "devices": "list the devices that can compute, and why another is not there",
    "parity": "take one step on several devices and compare losses, gradients, memory and time",
    "cache": "list what was made once and is kept, and remove what was not used for long",
    "calibrate": "time this machine's kernels, so that mebpc can predict step times",
    "serve": "run the layers of a split model for devices",
    "certs": "make certificates for trials of a model that is split between a device and a server",
    "wire": "show what crosses between the halves of a split model, and predict the time that it takes",
    "audit": "show what a curious server can compute from what crosses, by trying it on a split model",
    "inspect": "show what is in a bundle: blocks, programs, memory plan and sizes",
}
_FIRST = ("train", "eval", "chat", "generate", "merge")  # what people need first
_OTHERS = {
    "models and bundles": ("export", "models", "inspect", "verify"),
    "data, adapters, answers": ("data", "adapter", "ollama", "judge", "rollout"),
    "machines": ("devices", "parity", "calibrate", "cache"),
    "a model on two machines": ("serve", "certs", "wire", "audit"),
}
DISAGREES, FAILED, BY_SIGNAL = 1, 2, 128
INTERRUPTED, HUNG_UP, TERMINATED = (BY_SIGNAL + number for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM))
EXIT_STATUSES = {
    0: "done",
    DISAGREES: "verify, parity or devices --test found numbers that disagree, a gate of judge fails, or train has kept "
    "its adapter and could not upload it",
    FAILED: "error; one line on standard error says why",
    HUNG_UP: "the terminal was closed (SIGHUP); a training run saved its state and adapter first",
    INTERRUPTED: "stopped by Ctrl-C; saved in the same way",
    TERMINATED: "stopped by SIGTERM; saved in the same way",
}


# argparse's words of one argument, and of what is wrong with it.
_ARGUMENT = re.compile(r"argument (?:-\w/)?(\S+): (.*)", re.DOTALL)
_CHOICE = re.compile(r"invalid choice: (.*?),? \(choose from (.*)\)", re.DOTALL)
_VALUE = re.compile(r"invalid (int|float) value: (.*)", re.DOTALL)
_KINDS = {"int": "a whole number", "float": "a number"}


def _in_plain_words(message: str) -> str:
    """What argparse says, as all other refusals are worded; as it is where it is about something else."""
    if not (argument := _ARGUMENT.fullmatch(message)):
        return message
    name, said = argument.groups()
    if choice := _CHOICE.fullmatch(said):
        choices = listed(each.strip(" '") for each in choice[2].split(","))
        return f"{name} is {choice[1]}; choose {choices}"
    if value := _VALUE.fullmatch(said):
        return f"{name} is {value[2]}; give {_KINDS[value[1]]}"
    return f"{name} has no value; give one" if said.startswith("expected ") else f"{name}: {said}"


class _Parser(argparse.ArgumentParser):
    def __init__(self, **given: object) -> None:
        super().__init__(allow_abbrev=False, **given)  # what is short today may be ambiguous tomorrow
        self._first: Collection[str] = ()
        self._others = ""
        self.refuse_elsewhere = lambda name: None  # raises Error for an option that another tool has, by its name

    def begin_with(self, first: Collection[str], others: str) -> None:
        """Lets --help show these options alone, by their names without dashes, with what the `others` are for, and
        --help-all every one."""
        self._first, self._others = first, others
        self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show every option, by objective, and exit")

    def format_help(self) -> str:
        if not self._first:
            return self.format_all()
        formatter = self._get_formatter()
        formatter.add_text(f"usage: {self.prog} MODEL --data FILE [OPTIONS]")
        formatter.add_text(self.description)
        formatter.start_section(None)
        formatter.add_arguments(self._positionals._group_actions)
        formatter.add_arguments([self._option_string_actions[f"--{name}"] for name in self._first])
        formatter.end_section()
        formatter.add_text(f"{self.prog} --help-all shows the other options, too: {self._others}.")
        return formatter.format_help()

    def format_all(self) -> str:
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        raise Error(f"{_in_plain_words(message)}; see {self.prog} --help")

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse, but what takes one value is given once: else the last one would win in silence. And an option
        that is not there is told before one that is missing, which it may have been meant for."""
        seen: dict[int, str] = {}
        for word in itertools.takewhile(lambda word: word != "--", args or ()):
            name = word.split("=")[0] if word.startswith("--") else word[:2]
            action = self._option_string_actions.get(name)
            is_option = word.startswith("--") and " " not in name  # as argparse has it: a text may begin so
            if action is None and is_option and self._subparsers is None:
                self.refuse([word])
            if action is None or isinstance(action, argparse._AppendAction):
                continue
            if id(action) in seen:
                first = seen[id(action)]
                self.error(f"{name} is given twice" if first == name else f"{first} and {name} are both given")
            seen[id(action)] = name
        return super().parse_known_args(args, namespace)

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Raises Error for arguments that nothing takes, with the option that the first may mean."""
        name = unknown[0].split("=")[0]
        if not name.startswith("-"):
            several = "; give --data once for each file" if "data" in self.long_options() else ""
            self.error(f"'{name}' is one argument too many{several}")
        self.refuse_elsewhere(name.lstrip("-").replace("-", "_"))
        hint = option_hint(name, self.long_options(), _flag) or _elsewhere(name)
        self.error(f"'{name}' is not an option of this command{f'; {hint}' if hint else ''}")

    def long_options(self) -> list[str]:
        """Without the dashes before them."""
        return [option[2:] for option in self._option_string_actions if option.startswith("--")]


def _flag(name: str) -> str:
    return f"--{name}"


def _elsewhere(name: str) -> str | None:
    """The command that has what another trainer calls `name`."""
    meant = SAME.get(plain_name(name), ())
    parsers = make_parsers() if meant else {}
    has = ((option, command) for command in (*_FIRST, *parsers) if command in parsers
           for option in meant if option in parsers[command].long_options())  # fmt: skip
    return next((f"mebp {command} has --{option} for it" for option, command in has), None)


class _MainParser(_Parser):
    """What asks for a screen of help: some commands first, of the others their names."""

    def format_help(self) -> str:
        lines = ["usage: mebp COMMAND ... [--help] [--version]", "", str(self.description), "", "to begin with:"]
        lines += [f"  {name:<10} {_COMMANDS[name]}" for name in _FIRST]
        lines += ["", "and further:"]
        lines += [f"  {what:<24} {', '.join(names)}" for what, names in _OTHERS.items()]
        lines += ["", "mebp COMMAND --help says what a command does, and its options."]
        return "\n".join([*lines, textwrap.fill(str(self.epilog), 80), ""])


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        say(parser.format_all(), end="")
        parser.exit()


class _Version(argparse.Action):
    """Asks for the version only where it is asked for: the extension says it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        say(f"mebp {mebp.__version__}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `mebp ARGUMENTS` and returns its exit status, one of EXIT_STATUSES."""
    status = _run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python would complain when it flushes again at its end. Whoever reads no more need not be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if status == 0 and not isinstance(error, BrokenPipeError):
            _fail(_unwritten(error))
        return status or FAILED
    return status


def _run(arguments: Sequence[str] | None) -> int:
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        if given and not given[0].startswith("-") and given[0] not in _COMMANDS:
            hint = command_hint(given[0], _COMMANDS)
            raise Error(f"'{given[0]}' is not a command{f'; {hint}' if hint else ''}; see mebp --help")
        parser, commands = _parser(*given[:1])
        parsed, unknown = parser.parse_known_args(given)
        if unknown:
            commands[parsed.command].refuse(unknown)
        for name, value in vars(parsed).items():
            if isinstance(value, Path):
                setattr(parsed, name, user_path(value))
        return import_module(f"mebp.cli.{parsed.command}").run(parsed)
    except Error as error:
        return _fail(error) if says_why() else FAILED
    except KeyboardInterrupt:
        say("mebp: interrupted", error=True)
        return INTERRUPTED
    except BrokenPipeError:
        return FAILED
    except OSError as error:
        if error.filename == STANDARD_OUTPUT:
            return _fail(_unwritten(error))
        return _fail(
            f"{error.filename or 'the system'}: {reason(error)}; check the path and the free space on the disk"
        )
    except Exception as error:
        if "MEBP_TRACEBACK" in os.environ:
            raise
        if isinstance(error, ImportError) and not (error.name or "mebp").startswith("mebp"):
            return _fail(f"the package {error.name} cannot be used ({reason(error)}); install it anew with pip")
        return _fail(f"unexpected {type(error).__name__}: {error}; set MEBP_TRACEBACK=1 to see where, and report it")


def make_parsers() -> dict[str, _Parser]:
    """Each command's own parser, by the command's name."""
    return _parser(*_COMMANDS)[1]


def _parser(*chosen: str) -> tuple[_Parser, dict[str, _Parser]]:
    """The whole parser and the commands' own, which know their options where they are `chosen`: the other commands'
    modules need not be imported."""
    statuses = "; ".join(f"{status}: {EXIT_STATUSES[status]}" for status in (0, DISAGREES, FAILED))
    parser = _MainParser(
        prog="mebp",
        description="Fine-tune language models exactly in very little memory.",
        epilog=f"Exit status {statuses}.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    commands = {
        name: subparsers.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
        for name, purpose in _COMMANDS.items()
    }
    for name in commands.keys() & set(chosen):
        import_module(f"mebp.cli.{name}").add_arguments(commands[name])
    return parser, commands


def _unwritten(error: OSError) -> str:
    return f"{STANDARD_OUTPUT}: cannot be written ({reason(error)}); make room or choose another file"


def _fail(message: object) -> int:
    say(f"mebp: {Error(message)}", error=True)
    return FAILED
