# SPDX-License-Identifier: Apache-2.0
"""Reads one odd file after another: each is taken, or refused by one line that names it, in little time and memory."""

import os
import random
import re
import resource
import time
import traceback
import unicodedata
import warnings
from collections.abc import Callable
from contextlib import contextmanager

from mebp.errors import Error

COUNT = int(os.environ.get("MEBP_MUTANTS", "500"))  # scripts/soak.sh has more
_CPU_SECONDS = 3
_MEMORY = 384 << 20
_LONGEST_LINE = 2000
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def hold(make: Callable[[random.Random], str], read: Callable[[random.Random], None], names: list[str]) -> None:
    """make: writes a mutant and returns what is odd in it. names: one of these has to be in each line."""
    found: dict[str, str] = {}
    outcomes = {True: 0, False: 0}
    for number in range(COUNT):
        choose = random.Random(number)
        what = f"mutant {number}, {make(choose)}"
        try:
            outcomes[_is_read(lambda choose=choose: read(choose), names)] += 1
        except AssertionError as error:
            kind = re.sub(r"/\S*|'[^']*'|[0-9]+", "", str(error).split("\n")[0])
            found.setdefault(kind[:120], f"{what[:600]}: {error}")
    assert not found, "\n".join([f"{len(found)} kinds of findings", *found.values()])
    # A mutator whose mutants are all refused, or none, tries nothing.
    assert min(outcomes.values()) > COUNT // 20, outcomes


def _is_read(read: Callable[[], None], names: list[str]) -> bool:
    started = time.process_time()
    try:
        with _limited_memory(), warnings.catch_warnings():
            warnings.simplefilter("error")  # it would be a second line
            read()
        return True
    except Error as error:
        line = str(error)
        assert _is_shown(line) and "; " in line, f"not one line that says what to do: {line[:300]!r}"
        assert len(line) < _LONGEST_LINE, f"a line of {len(line)} characters: {line[:300]!r}"
        assert any(name in line for name in names), f"a line that does not name the file: {line!r}"
        assert "unexpected" not in line, f"unexpected: {line!r}"
        return False
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/mebp/" in frame.filename]
        place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].name}" if frames else "test"
        raise AssertionError(f"{type(error).__name__} in {place}\n{str(error)[:300]!r}") from error
    finally:
        seconds = time.process_time() - started
        assert seconds < _CPU_SECONDS, f"takes too long\n{seconds:.1f} s"


def _is_shown(line: str) -> bool:
    """No control characters, no halves of others, no ends of lines, and nothing that turns the writing around."""
    return not any(unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") or each in _TURNS for each in line)


@contextmanager
def _limited_memory():
    """What more than this is asked for is a MemoryError, also where it would never be touched."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
