# SPDX-License-Identifier: Apache-2.0
"""Two runs, compared tensor by tensor: for those who change a kernel or a pass (docs/debugging.md).

    python -m mebp.debugging gradients NAME.mebp OUT.npz [--adapter DIR] [--seed N]
    python -m mebp.debugging compare A.npz B.npz

A process has one family of kernels, which MEBP_KERNELS names; so each run writes a file.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

import mebp
from mebp.errors import translate_errors
from mebp.files import replaced_file
from mebp.tables import Table
from mebp.tensor_file import relative_norm
from mebp.verification.inputs import randomise_adapter
from mebp.words import say


def write_gradients(bundle: Path, output: Path, adapter: Path | None = None, seed: int = 0) -> None:
    """The loss and every gradient of one full batch of random tokens.

    Without an adapter, what begins with zeros is random: else what lies before it has no gradient.
    """
    session, random = mebp.Session(bundle), np.random.default_rng(seed)
    if adapter:
        session.load_adapter(adapter)
    else:
        randomise_adapter(session, seed)
    ids = random.integers(0, session.vocabulary, (session.max_batch, session.max_sequence))
    loss, gradients = session.loss_and_gradients(ids, ids)
    with replaced_file(output, "choose another") as unfinished, unfinished.open("wb") as file:
        np.savez(file, loss=np.float32(loss), **gradients)


def compare(first: Path, second: Path) -> Table:
    """Every tensor of both files, the most different first: the L2 norm of the difference by that of the first one."""
    ours, theirs = _read(first), _read(second)
    for name in ours.keys() | theirs.keys():
        if name not in ours or name not in theirs or ours[name].shape != theirs[name].shape:
            raise mebp.Error(f"{second}: '{name}' differs from the one in {first}; compare runs of one model")
    errors = {name: relative_norm(theirs[name] - values, values) for name, values in ours.items()}
    rows = [[name, f"{error:.1e}"] for name, error in sorted(errors.items(), key=lambda entry: -entry[1])]
    return Table(f"{second} against {first}", ["tensor", "relative difference"], rows)


def _read(path: Path) -> dict[str, np.ndarray]:
    with translate_errors(
        f"{path}: cannot be read", "write it with gradients", (OSError, EOFError, ValueError, BadZipFile)
    ):
        return dict(np.load(path))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mebp.debugging", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    gradients = commands.add_parser("gradients", help="write the loss and the gradients of one batch")
    gradients.add_argument("bundle", type=Path)
    gradients.add_argument("output", type=Path)
    gradients.add_argument("--adapter", type=Path, help="compute them at this adapter (default: a random one)")
    gradients.add_argument(
        "--seed", type=int, default=0, help="seed for tokens and, without --adapter, for B (default: 0)"
    )
    both = commands.add_parser("compare", help="compare two such files, tensor by tensor")
    both.add_argument("first", type=Path)
    both.add_argument("second", type=Path)
    given = parser.parse_args(arguments)
    try:
        if given.command == "gradients":
            write_gradients(given.bundle, given.output, given.adapter, given.seed)
        else:
            say(compare(given.first, given.second))
    except mebp.Error as error:
        say(f"debugging: {error}", error=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
