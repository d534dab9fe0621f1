# SPDX-License-Identifier: Apache-2.0
"""The options of the command line that lead a split model's halves to each other."""

import os

from mebp import split
from mebp.errors import Error
from mebp.remote_adapters import kind_of_bundle
from mebp.words import listed

CONNECTION = ("connect", "cert", "key", "ca", "plain_text", "retry_for")


def credentials_of(
    certificate: os.PathLike[str] | None,
    key: os.PathLike[str] | None,
    authority: os.PathLike[str] | None,
    plain_text: bool,
    names: tuple[str, str, str] = ("--cert", "--key", "--ca"),
) -> split.Credentials | None:
    """Of a command's options; None for plain text. Raises mebp.Error where some are missing or too many."""
    files = dict(zip(names, (certificate, key, authority), strict=True))
    given = [name for name, file in files.items() if file]
    if plain_text:
        if given:
            raise Error(f"--plain-text and {given[0]} cannot be used together; give one")
        return None
    missing = [name for name in names if name not in given]
    if missing:
        raise Error(
            f"{' and '.join(missing)} must be given; mebp certs DIR makes the files, and --plain-text does without, "
            "between addresses of one machine"
        )
    return split.Credentials(certificate, key, authority)


def open_stream(
    bundle: os.PathLike[str],
    connect: str | None = None,
    cert: os.PathLike[str] | None = None,
    key: os.PathLike[str] | None = None,
    ca: os.PathLike[str] | None = None,
    plain_text: bool = False,
    retry_for: float | None = None,
    in_flight: int = 1,
) -> object | None:
    """`connect`, by the options of the command line; None where no server is named.

    Raises mebp.Error where options are missing or do not go together.
    """
    if connect is None:
        given = {"--cert": cert, "--key": key, "--ca": ca, "--plain-text": plain_text, "--retry-for": retry_for,
                 "--in-flight": in_flight > 1}  # fmt: skip
        for name in (name for name, value in given.items() if value not in (None, False)):
            raise Error(f"{name} is about a server; give --connect HOST:PORT, too")
        return None
    credentials = credentials_of(cert, key, ca, plain_text)
    retry_for = split.RETRY_SECONDS if retry_for is None else retry_for
    return split.connect(bundle, connect, credentials, retry_for=retry_for, in_flight=in_flight)


def exposure(description: dict, address: str) -> str:
    """What the server can compute of what crosses, by the layers that this half of the model keeps."""
    first, last = split.kept_layers(description)
    readable = [*([] if first else ["the tokens"]), *([] if last else ["the labels", "the outputs"])]
    known = listed([*readable, kind_of_bundle(description).symbol], "and")
    left = {"tokens": first, "labels and outputs": last}
    guessed = " and ".join(name for name, layers in left.items() if layers)
    beside = f", and may guess {guessed}" if guessed else ""
    return (
        f"the server at {address} can compute {known}{beside}: this half keeps {first} first and {last} "
        "last layers (mebpc --device-first, --device-last)"
    )
