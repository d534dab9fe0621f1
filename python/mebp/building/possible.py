# SPDX-License-Identifier: Apache-2.0
"""What a model's config.json tells of options before the model is exported, which takes a minute and more."""

from collections.abc import Mapping

from mebp.compile_options import CompileOptions
from mebp.errors import Error
from mebp.session_options import byte_size

_WIDTHS = ("hidden_size", "n_embd", "d_model")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_RUNTIME = 10**6  # bytes of a plan that are the runtime's own
_CODES = ("int8", "int4", "int4-sym", "file")  # storages that a step cannot change; int8 by one optimizer
_RANK = 8
_VECTORS = ("norm", "bias")  # in names of what no storage rounds
_NUMBER = 4  # bytes of a trained number


def trained_storage(options: CompileOptions, optimizer: str | None) -> str | None:
    """The storage of weights that --train full trains, where nobody has named one; None where mebpc's own will do.

    Raises mebp.Error where one was named that cannot be trained.
    """
    if options.train != "full" or options.weights_for is not None:
        return None
    patterns = (options.train_targets or "all-linear").split(",")
    if all(any(word in pattern for word in _VECTORS) for pattern in patterns):
        return None
    codes = _CODES[1:] if optimizer == "qgalore" else _CODES
    if options.weights in codes:
        kept = "int8, bf16" if optimizer == "qgalore" else "bf16"
        raise Error(
            f"--weights {options.weights}: a step cannot change weights that are stored so; give --weights {kept} or "
            "f32, leave it out, or leave out --train full"
        )
    if options.weights is not None:
        return None
    return {"qgalore": "int8", "mezo": "f32"}.get(optimizer or "", "bf16")


def check_possible(
    config: Mapping[str, object], limit: int | None, options: CompileOptions, optimizer: str | None
) -> None:
    """Raises mebp.Error for sizes, ranks and budgets that no export of a model with this config.json can have.

    limit: the most positions of the model.
    """
    for name in ("seq_len", "generate_len"):
        length = getattr(options, name)
        if length is not None and limit is not None and length > limit:
            raise Error(f"--{name.replace('_', '-')} {length}: the model has {limit} positions; give at most {limit}")
    width, layers = (_whole(config, names) for names in (_WIDTHS, _LAYERS))
    everywhere = options.train != "full" and options.adapter_kind in (None, "lora")
    everywhere = everywhere and options.lora_targets in (None, "all-linear")
    rank = options.lora_rank or _RANK
    if everywhere and width and rank > width:
        raise Error(f"--lora-rank {rank} is above the model's width; give at most {width}")
    try:
        budget = byte_size("--memory-budget", options.memory_budget)
    except Error:  # a word; mebpc has said what is wrong of others
        return
    # Less than any plan has: of each layer two matrices or more read what is as wide as the model.
    layers = 1 if "num_hidden_groups" in config else layers or 0  # of which ALBERT has one for all
    trained = 2 * layers * rank * (width or 0) * _NUMBER if everywhere and options.spill != "all" else 0
    moments = 2 * trained if optimizer in (None, "adamw") else 0
    least = _RUNTIME + trained + moments
    if 0 < budget < least:
        raise Error(
            f"--memory-budget {options.memory_budget}: any plan of this model needs more than {least / 1e6:.2f} MB; "
            "give more, or see what each budget buys with mebpc --frontier"
        )


def _whole(config: Mapping[str, object], names: tuple[str, ...]) -> int | None:
    return next((value for name in names if type(value := config.get(name)) is int and value > 0), None)
