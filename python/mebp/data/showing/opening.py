# SPDX-License-Identifier: Apache-2.0
"""The tokenizer and the row length with which a model would train on some data; nothing is exported or compiled."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mebp.adapters.origin import find_origin
from mebp.building import is_bundle, settings_of
from mebp.building.length import choose_length, is_enough_to_share, model_limit
from mebp.building.using import is_adapter
from mebp.data.loading import has_samples, sample_lengths
from mebp.data.sharing import Sharing
from mebp.data.sources import Source
from mebp.errors import Error
from mebp.exporter.finding import find_model
from mebp.files import user_path
from mebp.inspect import inspect
from mebp.tokenizer import Tokenizer

_LOOKED_AT = 2000  # samples, from all over the file


@dataclass(frozen=True)
class Asked:
    """Options of mebp train that rows depend on; None where that chooses."""

    seq_len: int | None = None
    packing: bool | None = None
    seed: int = 0


@dataclass(frozen=True)
class Opened:
    tokenizer: Tokenizer
    length: int
    reason: str  # why a row is so long
    sharing: Sharing | None


@contextmanager
def opened(model: str, source: Source, asked: Asked) -> Iterator[Opened]:
    """model: a bundle, the folder of an adapter that this machine has trained, or what mebp train makes a bundle of.

    Raises mebp.Error where it cannot be found, or its bundle does not go with what is asked for.
    """
    if asked.seq_len is not None and asked.seq_len < 2:
        raise Error(f"--seq-len is {asked.seq_len}; give at least 2")
    place = user_path(model)
    if is_adapter(place):
        place = _bundle_of(place)
    if is_bundle(place):
        yield _of_bundle(place, source, asked)
        return
    with settings_of(find_model(model, shape_only=True)) as settings:
        yield _of_model(settings, source, asked)


def _bundle_of(adapter: Path) -> Path:
    origin = find_origin(adapter)
    if origin is None or not origin.has_bundle:
        raise Error(f"{adapter}: its bundle is not there; give the model or the bundle that it was trained on instead")
    return Path(origin.bundle)


def _of_bundle(bundle: Path, source: Source, asked: Asked) -> Opened:
    if asked.seq_len is not None:
        raise Error(f"--seq-len is for a model, and {bundle} is compiled already; leave it out")
    tokenizer, description = Tokenizer(bundle), inspect(bundle)
    packs = bool(description["manifest"].get("options", {}).get("packing"))
    if asked.packing and not packs and has_samples(source):
        raise Error(
            f"--packing puts several samples into a row, which {bundle} was compiled without; compile it with "
            "--packing, or leave --packing out"
        )
    return Opened(tokenizer, description["model"]["sequence"], "as compiled", _sharing(source, asked, packs))


def _of_model(settings: Path, source: Source, asked: Asked) -> Opened:
    tokenizer, limit = Tokenizer.of_model(settings), model_limit(settings)
    lengths = sample_lengths(source, tokenizer, _LOOKED_AT)
    may_share = lengths is not None and asked.packing is not False and not source.counting.weighs
    if asked.seq_len is None:
        chosen = choose_length(lengths, limit, packs=may_share)
        length, reason = chosen.tokens, chosen.reason
    else:
        length, reason = asked.seq_len, "as asked for"
    packs = may_share and (asked.packing or is_enough_to_share(lengths, length))
    return Opened(tokenizer, length, reason, _sharing(source, asked, packs))


def _sharing(source: Source, asked: Asked, packs: bool) -> Sharing | None:
    if not packs or asked.packing is False or source.counting.weighs:
        return None
    return Sharing(asked.seed, may_cut=not asked.packing)
