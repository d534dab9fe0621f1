# SPDX-License-Identifier: Apache-2.0
"""The options of mebpc that `mebp train MODEL` passes on: the one table of them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import get_args, get_type_hints

_MEBPC_NAMES = {"adapter_kind": "adapter"}
AUTO = "auto"  # of memory_budget: what the machine has free


def _option(value: str, help: str) -> object:
    return field(default=None, metadata={"metavar": value, "help": help})


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
    precision: str | None = _option("TYPE", "type of the activations, bf16 or f32 (default: bf16)")
    weights: str | None = _option(
        "TYPE", "type of the frozen weights: f32, bf16, int8, int4 or int4-sym (default: int4)"
    )
    embedding_weights: str | None = _option("TYPE", "type of the embedding and the head (default: as mebpc chooses)")
    train: str | None = _option("WHAT", "train adapters (lora) or weights of the model (full) (default: lora)")
    train_targets: str | None = _option("NAMES", "with --train full, which weights: all-linear, or patterns of names")
    lora_rank: int | None = _option("N", "rank of the adapters (default: 8)")
    lora_alpha: float | None = _option("X", "scale adapters by alpha / rank (default: 16)")
    lora_targets: str | None = _option(
        "NAMES", "layers to adapt: all-linear, or names such as q_proj,experts.down_proj"
    )
    adapter_kind: str | None = _option(
        "KIND", "train LoRA (lora), or B M A with random B and A (private-lora); mebpc's --adapter (default: lora)"
    )
    rank_down: int | None = _option("N", "with private-lora, inputs of M (default: 32)")
    rank_up: int | None = _option("N", "with private-lora, outputs of M (default: 32)")
    share_a: bool | None = _option("", "with private-lora, one A for layers that read one value")
    split_layers: str | None = _option("N-N", "with private-lora, adapt these layers alone, as in 0-7 (default: all)")
    galore_rank: int | None = _option("N", "rank of GaLore's projections (default: 64)")
    router_aux_loss_coef: float | None = _option(
        "X", "add X times the loss of how unevenly a mixture's experts are used (default: 0)"
    )
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
    kinds = compile_option_kinds()
    for one in fields(CompileOptions):
        yield one.name, kinds[one.name], one.metadata["metavar"], one.metadata["help"]


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
