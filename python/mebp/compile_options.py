# SPDX-License-Identifier: Apache-2.0
"""The options of mebpc that `mebp train MODEL` passes on. What they say of themselves is in format/options.h."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import get_args, get_type_hints

from mebp.remote_adapters import adapter_kinds
from mebp.shared_options import SharedOption, shared_options

_MEBPC_NAMES = {"adapter_kind": "adapter"}
AUTO = "auto"  # of memory_budget: what the machine has free


def _option(value: str, help: str) -> object:
    """One that means something else here than to mebpc."""
    return field(default=None, metadata={"own": SharedOption(value, help)})


@dataclass(frozen=True)
class CompileOptions:
    """By mebpc's own names, with _ for -; None leaves one to the data, or to mebpc. mebpc checks the values.

    One name is not mebpc's: adapter_kind is its --adapter, for mebp train's own --adapter names a folder.
    """

    seq_len: int | None = _option("N", "train on sequences of up to N tokens (default: what the data needs)")
    batch: int | None = _option("N", "sequences in a batch (default: 1)")
    generate_len: int | None = _option(
        "N", "let the bundle generate text, prompt and answer together up to N tokens (default: 1024 without a budget)"
    )
    precision: str | None = None
    weights: str | None = None
    embedding_weights: str | None = None
    train: str | None = None
    train_targets: str | None = None
    lora_rank: int | None = None
    lora_alpha: float | None = None
    lora_targets: str | None = None
    adapter_kind: str | None = _option("KIND", "train {kinds}; mebpc's --adapter (default: lora)")
    rank_down: int | None = None
    rank_up: int | None = None
    share_a: bool | None = None
    split_layers: str | None = None
    galore_rank: int | None = None
    router_aux_loss_coef: float | None = None
    memory_budget: str | None = _option(
        "SIZE", "take the fastest plan within this peak, such as 64MiB, or auto: three quarters of what is free"
    )

    @staticmethod
    def named_by_mebpc(options: Mapping[str, object]) -> dict[str, object]:
        """`options` by mebpc's names."""
        return {_MEBPC_NAMES.get(name, name): value for name, value in options.items()}

    @staticmethod
    def named_here(line: str) -> str:
        """What mebpc says, with the names that the options have here."""
        for name, other in _MEBPC_NAMES.items():
            line = re.sub(rf"{flag(other)}(?![\w-])", flag(name), line)
        return line

    def given(self) -> dict[str, object]:
        """Those that are not None."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) is not None}


def compile_option_kinds() -> dict[str, type]:
    """The type of each option, by its name."""
    return {name: get_args(hint)[0] for name, hint in get_type_hints(CompileOptions).items()}


def compile_option_helps() -> Iterator[tuple[str, type, str, str]]:
    """Name, type, metavar and help of each, for a command line."""
    types = compile_option_kinds()
    first, *others = adapter_kinds()
    kinds = ", or ".join([f"{first.title} ({first.name})", *(f"{kind.formula} ({kind.name})" for kind in others)])
    for one in fields(CompileOptions):
        said = one.metadata.get("own") or shared_options()[one.name.replace("_", "-")]
        yield one.name, types[one.name], said.value, said.help.format(kinds=kinds)


def flag(name: str) -> str:
    """The option on a command line."""
    return f"--{name.replace('_', '-')}"


def as_arguments(options: Mapping[str, object]) -> list[str]:
    """For mebpc; None leaves one out, and True is an option without a value."""
    parts: list[str] = []
    for name, value in options.items():
        if value is not None and value is not False:
            parts += [flag(name)] if value is True else [flag(name), str(value)]
    return parts
