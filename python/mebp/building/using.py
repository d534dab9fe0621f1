# SPDX-License-Identifier: Apache-2.0
"""What a command uses: a bundle, what `mebp train` took, or the folder of an adapter alone."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mebp.adapters.origin import FILE, Origin, bundle_digest, find_origin
from mebp.adapters.peft import names_of_targets
from mebp.building import Builder, Built, Trained, is_bundle
from mebp.building.budget import CHOSEN, free_budget
from mebp.cache import hold_entry_of
from mebp.compile_options import AUTO, NONE, CompileOptions, flag
from mebp.data.loading import sample_lengths
from mebp.data.sources import Source
from mebp.errors import Error
from mebp.files import own_file, read_json, user_path
from mebp.tokenizer import ALL_TOKENS, Tokenizer
from mebp.waiting import stages
from mebp.words import say

_CONFIG, _MODEL = "adapter_config.json", "config.json"
_NAME = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)

_LOOKED_AT = 2000  # samples, from all over the data


class Used(NamedTuple):
    bundle: Path
    adapter: Path | None


def is_adapter(folder: Path) -> bool:
    return (folder / _CONFIG).is_file() and not (folder / _MODEL).exists()


def find_used(
    given: Path,
    adapter: Path | None,
    base: str | None,
    options: CompileOptions,
    data: Source | None = None,
) -> Used:
    """The bundle, which is made where it is not there, and the adapter; what was made is said on standard error.

    given: a bundle, a model or an adapter's folder. An adapter that this machine has not trained itself (mebp.json
        does not say it, a list in the cache does) needs `base`, a model or a bundle: nothing is opened or built because
        a stranger's folder names it.
    options: those that made the bundle; they win over what an adapter was trained in.
    data: what a bundle is made for, where there is none yet.
    """
    model: str | None = str(given)
    if is_adapter(given):
        if adapter is not None:
            raise Error(f"{given}: is an adapter already; leave out --adapter, or give the model in its place")
        model, adapter = base, given
    elif base is not None:
        raise Error(f"--base names the model of an adapter's folder, and {given} is not one; leave --base out")
    elif steps := sorted(given.glob(f"step-*/{_CONFIG}")):
        raise Error(f"{given}: holds the adapters of several steps; give one, such as {steps[-1].parent}")
    if model is not None and is_bundle(user_path(model)):
        if given_options := options.given():
            name = next(iter(given_options))
            raise Error(f"{flag(name)} is for a model, and {model} is compiled already; leave it out")
        return Used(user_path(model), adapter)
    origin = find_origin(adapter) if adapter is not None else None
    if origin is not None and (model is None or origin.is_of(model)):
        return Used(_bundle_of(origin, adapter, options), adapter)
    if model is None:
        raise Error(
            f"{adapter}: this machine has not trained it as it is now, so nothing is opened because of what its {FILE} "
            "says; give --base MODEL, the model or the bundle that it was trained on"
        )
    if adapter is not None:
        options = replace(options, **{**_shape_of(adapter), **options.given()})
    use = replace(_use_of(data), train_tokens=_tokens_of(adapter) if adapter is not None else ())
    return Used(_build(lambda builder: builder.build(model, use, options, {})).bundle, adapter)


def _bundle_of(origin: Origin, adapter: Path, options: CompileOptions) -> Path:
    changed = options.given()
    hold_entry_of(Path(origin.bundle))
    if origin.has_bundle and not changed:
        return Path(origin.bundle)
    if origin.model is None:
        if changed:
            name = flag(next(iter(changed)))
            raise Error(f"{name} is for a model, and {adapter} was trained on a bundle; leave it out")
        raise Error(
            f"{adapter}: was trained on {origin.bundle}, which is gone or another one now; give --base MODEL, the "
            "model or another bundle of it"
        )
    if not changed:
        say(f"{origin.bundle}: is gone, so it is built again from {origin.model}", error=True)
    if changed.get("memory_budget") == AUTO:
        changed["memory_budget"] = str(free_budget())
    elif changed.get("memory_budget") == NONE:
        changed["memory_budget"] = None
    compiling = {**origin.compiling, **changed}
    if "memory_budget" in changed:
        compiling.pop(CHOSEN, None)
    lengths = [made.get(name) or 0 for made in (origin.exporting, compiling) for name in ("seq_len", "generate_len")]
    exporting = {**origin.exporting, "seq_len": max(lengths)}
    built = _build(lambda builder: builder.rebuild(origin.model, exporting, compiling), tells=bool(changed))
    if not changed and bundle_digest(built.bundle) != origin.program:
        say(
            f"mebp: note: {built.bundle} differs from the bundle that {adapter} was trained in: the model, mebp or "
            "what it knows of this machine has changed since",
            error=True,
        )
    return built.bundle


def _build(make: Callable[[Builder], Built], tells: bool = True) -> Built:
    """Says what was chosen only where something was made: a bundle that is there needs no word."""
    lines: list[str] = []
    with stages("starting", elsewhere=lambda line: None) as stage:
        built = make(Builder(lines.append, stage))
    for line in lines if built.is_new and tells else ():
        say(line, error=True)
    return built


def _use_of(data: Source | None) -> Trained:
    if data is None:
        return Trained("settings", lambda tokenizer: None)
    return Trained(str(data), lambda tokenizer: sample_lengths(data, tokenizer, _LOOKED_AT))


def _tokens_of(adapter: Path) -> tuple[str, ...]:
    """Those whose rows it has, by the tokenizer beside it, or all, as --train-tokens has them."""
    file = adapter / _CONFIG
    config = read_json(own_file(file), "save the adapter again")
    if config.get("modules_to_save") and config.get("task_type") == "CAUSAL_LM":
        return ALL_TOKENS
    indices = config.get("trainable_token_indices")
    if not indices:
        return ()
    lists = list(indices.values()) if isinstance(indices, dict) else [indices]
    added = Tokenizer.of_model(adapter).added_tokens
    if any(each != lists[0] for each in lists) or not isinstance(lists[0], list) or not {*lists[0]} <= added.keys():
        raise Error(f"{file}: trainable_token_indices are not of tokens that were added to the tokenizer beside it; "
                    "give --base NAME.mebp, a bundle for it")  # fmt: skip
    return tuple(added[index] for index in lists[0])


def _shape_of(adapter: Path) -> Mapping[str, object]:
    """The options of a bundle that reads the adapter in the folder, by its settings. Those are a stranger's: no more
    is taken of them than numbers and names of layers."""
    file = adapter / _CONFIG
    config = read_json(own_file(file), "save the adapter again")
    rank, alpha, targets = config.get("r"), config.get("lora_alpha"), names_of_targets(config, file)
    scale = {"rslora": True} if config.get("use_rslora") else {}
    if type(rank) is not int or type(alpha) not in (int, float) or not targets:
        raise Error(f"{file}: does not say r, lora_alpha and target_modules; give --base NAME.mebp, a bundle for it")
    if not all(each == "all-linear" or _NAME.fullmatch(each) for each in targets):
        raise Error(f"{file}: target_modules are not names of layers; give --base NAME.mebp, a bundle for it")
    layers = _layers_of(file, config.get("layers_to_transform"))
    return {"lora_rank": rank, "lora_alpha": float(alpha), **scale, "lora_targets": ",".join(targets), **layers}


def _layers_of(file: Path, layers: object) -> Mapping[str, str]:
    """PEFT's layers_to_transform as --lora-layers has it."""
    if layers is None or layers == []:
        return {}
    numbers = sorted(layers) if isinstance(layers, list) and all(type(each) is int for each in layers) else [layers]
    first = numbers[0]
    if type(first) is not int or first < 0 or numbers != list(range(first, first + len(numbers))):
        raise Error(f"{file}: layers_to_transform are not layers one after the other, as --lora-layers has them; give "
                    "--base NAME.mebp, a bundle for it")  # fmt: skip
    return {"lora_layers": f"{first}-{numbers[-1]}"}
