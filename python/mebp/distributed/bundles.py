# SPDX-License-Identifier: Apache-2.0
"""The bundle of a run: rank 0 exports and compiles it. A machine that does not have it gets it, file by file, and keeps
it in its cache."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from mebp.adapters.origin import bundle_digest
from mebp.cache import Cache
from mebp.distributed.group import Group
from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.words import say

_AGAIN = "start all from the same mebp"


def bundle_for_all(group: Group, make: Callable[[], tuple[Path, str]]) -> tuple[Path, str]:
    """The bundle on this machine, and its model's name, of what `make` gives in rank 0. Raises mebp.Error where it
    cannot be had."""
    made = group.by_first(lambda: [str(each) for each in make()], "exporting and compiling the model")
    if not isinstance(made, list) or len(made) != 2:
        raise Error(f"rank 0 names no bundle; {_AGAIN}")
    path, model = Path(str(made[0])), str(made[1])
    digest = str(group.gather_json(bundle_digest(path) if group.is_first else None)[0])
    own = _find(path, digest) if group.local_rank == 0 else path
    if group.gather([own is None]).any():
        received = _receive(group, path, digest, is_taken=own is None)
        own = own or received
    paths = group.gather_json(str(own))
    return Path(str(paths[group.rank - group.local_rank])), model


def check_files(group: Group, bundle: Path, are_shared: bool = False) -> None:
    """Raises mebp.Error, the same in all processes, where one has no such bundle, or one that is cut off. are_shared:
    others will compute with its weights, so each machine reads its own once, and none may be damaged."""
    found = None
    try:
        opened = load_runtime().Bundle(os.fspath(bundle))
        if are_shared and group.local_rank == 0:
            opened.check_weights()
    except Error as error:
        found = f"{error}"
    for rank, damage in enumerate(group.gather_json(found)):
        if damage is not None:
            raise Error(f"rank {rank}: {damage}")


def _is(path: Path, digest: str) -> bool:
    with suppress(Error):
        return bundle_digest(path) == digest
    return False


def _find(path: Path, digest: str) -> Path | None:
    if _is(path, digest):
        return path
    kept = Cache(say).find(_name(digest))
    return kept / path.name if kept and _is(kept / path.name, digest) else None


def _name(digest: str) -> str:
    return f"bundles/of-rank-0-{digest[:16]}"


def _receive(group: Group, path: Path, digest: str, is_taken: bool) -> Path | None:
    """All take part, and where it is taken it is written."""
    files = sorted(each for each in path.rglob("*") if each.is_file()) if group.is_first else []
    told = group.gather_json([[each.relative_to(path).as_posix(), each.stat().st_size] for each in files])[0]
    try:
        listed = [(PurePosixPath(name), int(size)) for name, size in told]
    except (TypeError, ValueError):
        raise Error(f"rank 0 lists no files of its bundle; {_AGAIN}") from None
    if any(name.is_absolute() or ".." in name.parts or not name.parts or size < 0 for name, size in listed):
        raise Error(f"rank 0 lists a file outside of its bundle; {_AGAIN}")
    if not is_taken:
        for index, (_, size) in enumerate(listed):
            group.send_file(files[index] if group.is_first else None, size)
        return None

    def write(folder: Path) -> None:
        total = sum(size for _, size in listed)
        say(f"rank {group.rank}: receives {path.name}, {total / 1e6:,.1f} MB, from rank 0", error=True)
        for name, size in listed:
            (folder / path.name / name).parent.mkdir(parents=True, exist_ok=True)
            group.send_file(folder / path.name / name, size)
        if not _is(folder / path.name, digest):
            raise Error(f"rank 0 has sent another bundle than it has; {_AGAIN}")
        load_runtime().Bundle(os.fspath(folder / path.name)).check_weights()

    return Cache(say).keep(_name(digest), write)[0] / path.name
