# SPDX-License-Identifier: Apache-2.0
"""The options of mebpc that `mebp train MODEL` passes on. What they say of themselves is in format/options.h."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import get_args, get_type_hints

from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.remote_adapters import adapter_kinds, remote_kinds
from mebp.shared_options import SharedOption, shared_options

_MEBPC_NAMES = {"adapter_kind": "adapter", "adapter_seed": "seed"}
AUTO, NONE = "auto", "none"  # of memory_budget: what the machine has free; mebpc's plan without a budget
SPILLS = ("none", "checkpoints", "all")
# What mebpc alone has, and how it is asked for: it prints and stops, or makes a bundle that does not train by itself.
_PRINTING = "prints and trains nothing"
_HALVES = "splits a model over two machines"
_OF_MEBPC = {
    "frontier": (_PRINTING, "--frontier"),
    "emit": (_PRINTING, "--emit exec"),
    "explain_peak": (_PRINTING, "--plan-only --explain-peak"),
    "plan_json": (_PRINTING, "--plan-only --plan-json plan.json"),
    "max_seq_for": (_PRINTING, "--max-seq-for 1GiB"),
    "check_options": (_PRINTING, "--check-options"),
    "explain_wire": (_HALVES, "-o model.mebp --adapter {kind} --split {kind} --explain-wire"),
    "split": (_HALVES, "-o model.mebp --adapter {kind} --split {kind}"),
    "device_first": (_HALVES, "-o model.mebp --adapter {kind} --split {kind} --device-first 1"),
    "device_last": (_HALVES, "-o model.mebp --adapter {kind} --split {kind} --device-last 1"),
}


def refuse_of_mebpc(name: str) -> None:
    """Raises mebp.Error for an option that mebpc alone has, with the commands that do what it asks for."""
    if name == "value_adapter":
        raise Error("--value-adapter is here --objective ppo --value-model own; give that")
    if name in _OF_MEBPC:
        what, asking = _OF_MEBPC[name]
        command = f"mebpc model/model.onnx {asking.format(kind=remote_kinds()[0].name)}"
        raise Error(f"{flag(name)} {what}; run mebp export MODEL -o model/model.onnx, then {command}")


def _option(value: str, help: str) -> object:
    """One that means something else here than to mebpc."""
    return field(default=None, metadata={"own": SharedOption(value, help)})


@dataclass(frozen=True)
class CompileOptions:
    """By mebpc's own names, with _ for -; None leaves one to the data, or to mebpc. mebpc checks the values.

    Two names are not mebpc's, for mebp train's own --adapter names a folder, and its --seed is of the data's order.
    """

    seq_len: int | None = _option("N", "train on sequences of up to N tokens (default: what the data needs)")
    batch: int | None = _option("N", "sequences in a batch (default: 1)")
    generate_len: int | None = _option(
        "N", "let the bundle generate text, prompt and answer together up to N tokens (default: 1024 without a budget)"
    )
    precision: str | None = None
    weights: str | None = None
    embedding_weights: str | None = None
    weights_for: str | None = None
    train: str | None = None
    train_targets: str | None = None
    lora_rank: int | None = None
    lora_alpha: float | None = None
    rslora: bool | None = None
    lora_dropout: float | None = None
    lora_targets: str | None = None
    lora_layers: str | None = None
    adapter_kind: str | None = _option("KIND", "train {kinds}; mebpc's --adapter (default: lora)")
    adapter_seed: int | None = _option("N", "seed for the adapters' initial values; mebpc's --seed (default: 0)")
    split_layers: str | None = None
    wire: str | None = None
    memory_budget: str | None = _option(
        "SIZE",
        "take the fastest plan within this peak, such as 64MiB, or auto: three quarters of what is free; none: mebpc's "
        "usual plan (default: the fastest within a quarter of what is free; length, batch and generation as with none)",
    )
    spill: str | None = None
    resident_limit: str | None = None
    rates: str | None = None
    # Those that mebpc hands on as they stand, by docs/write_options.py.
    rank_down: int | None = None
    rank_up: int | None = None
    share_a: bool | None = None
    galore_rank: int | None = None
    value_head: bool | None = None
    entropy_bonus: bool | None = None
    router_aux_loss_coef: float | None = None
    random_weights: int | None = None
    chunk_size: int | None = None
    checkpoint_spacing: int | None = None
    loss_rows: int | None = None
    loss_columns: int | None = None

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


@cache
def listed_options() -> list[str]:
    """Those that mebpc hands on as they stand (format/options.h), by their names here."""
    return [name.replace("-", "_") for name, *_ in load_runtime().compile_options()]


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
