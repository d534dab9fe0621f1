# SPDX-License-Identifier: Apache-2.0
"""Tokens of large files, which are made once and kept in the cache."""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from mebp.cache import Cache
from mebp.data.sampling import write_samples
from mebp.data.sources import Source
from mebp.data.store import Tokens, TokenWriter, read_tokens
from mebp.errors import Error, translate_errors
from mebp.files import file_version, open_regular
from mebp.tokenizer import Tokenizer
from mebp.version import __version__
from mebp.waiting import tell
from mebp.words import listed

_KEPT = 4 << 20  # bytes; the tokens of less are made again in a moment
_DIGITS = 20


def tokens_of(source: Source, tokenizer: Tokenizer) -> tuple[Tokens, str | None]:
    """What the samples of the source are in tokens, and the name that the cache has for it; None in memory.

    Raises mebp.Error, with the line, where they cannot be read.
    """
    files = source.files()
    before = _versions(files)
    if sum(size for size, _ in before) < _KEPT:
        writer = TokenWriter()
        return writer.tokens(write_samples(source, tokenizer, writer)), None
    key = f"{_digest_of_data(source)}-{_digest_of_tokenizer(files, tokenizer)}"

    def make(folder: Path) -> None:
        tell(f"{listed(map(str, files), 'and')}: making tokens of it, which later runs take from the cache")
        write_samples(source, tokenizer, TokenWriter(folder))
        if _versions(files) != before:
            raise Error(f"{files[0]}: changed while it was read; try again when nothing writes to it")

    return read_tokens(kept(f"tokens/{key}", make)), key


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of that name in the cache, made where it is not there."""
    return Cache(tell).keep(name, make)[0]


def were_read(source: Source) -> bool:
    """Whether large files have been read to their ends before, by whichever tokenizer."""
    if sum(size for size, _ in _versions(source.files())) < _KEPT:
        return False
    return Cache(tell).has_like("tokens", f"{_digest_of_data(source)}-*")


def _versions(files: Sequence[Path]) -> list[tuple[int, int]]:
    found = []
    for file in files:
        with translate_errors(f"{file}: cannot be read", "check the path"):
            found.append(file_version(file.stat()))
    return found


def _digest_of_data(source: Source) -> str:
    digests = [str(source.columns), str(source.counting)]
    for file in source.files():
        with translate_errors(f"{file}: cannot be read", "check the path"):
            status = file.stat()
        digests.append(_digest_of_file(file, status.st_dev, status.st_ino, *file_version(status)))
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:_DIGITS]


@lru_cache
def _digest_of_file(file: Path, *version: int) -> str:
    with open_regular(file, "check the path") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _digest_of_tokenizer(files: Sequence[Path], tokenizer: Tokenizer) -> str:
    """Of all that the tokens depend on beside the data: tokenizer, chat template, and the code that makes them."""
    templates = [str(tokenizer.settings("tokenizer_config.json").get("chat_template"))]
    for path in sorted(tokenizer.folder.rglob("*.jinja")):
        templates += [path.name, path.read_text(encoding="utf-8", errors="replace")]
    dated = any("strftime" in template for template in templates)
    dates = [file.stat().st_mtime_ns for file in files] if dated else []
    around = [tokenizer.before_text, tokenizer.after_text, tokenizer.end_of_text, tokenizer.end_of_sequence]
    special = [sorted(tokenizer.special_tokens), sorted(tokenizer.named_special_tokens.items())]
    parts = [templates, dates, around, special, __version__, version("tokenizers"), *_own_files()]
    text = json.dumps(parts) + tokenizer.backend.to_str()
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _own_files() -> list[str]:
    """Between two releases the version does not tell."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(__file__).parents[1] / "tokenizer.py"]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
