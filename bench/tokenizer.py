# SPDX-License-Identifier: Apache-2.0
"""Speed and memory of libmebp_text: bench/tokenizer.py FOLDER TEXT. FOLDER has tokenizer.json. It is
measured in a process of its own."""

import argparse
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

from support.text_tokenizer import TextTokenizer


def _resident() -> float:
    """MB that this process has now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024 / 1e6


def _measure(folder: Path, file: Path) -> None:
    text = file.read_bytes()
    begun = _resident()
    start = time.perf_counter()
    tokenizer = TextTokenizer(folder)
    opened, vocabulary = time.perf_counter() - start, _resident() - begun
    # As a host reads a file: a piece at a time.
    size, count = 1 << 16, 0
    pieces = [text[at : at + size].decode(errors="ignore").encode() for at in range(0, len(text), size)]
    before = _resident()
    start = time.perf_counter()
    for piece in pieces:
        count += len(tokenizer.encode(piece))
    seconds = time.perf_counter() - start
    print(f"opened in {opened * 1e3:.0f} ms; {vocabulary:.1f} MB for the vocabulary")
    megabytes, beside = len(text) / 1e6, _resident() - before
    print(f"{megabytes:.1f} MB, {count} tokens: {megabytes / seconds * 60:.0f} MB a minute; {beside:.1f} MB beside")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--here", action="store_true", help="measure in this process")
    given = parser.parse_args()
    if given.here:
        _measure(given.folder, given.text)
    else:
        subprocess.run([sys.executable, __file__, given.folder, given.text, "--here"], check=True)


if __name__ == "__main__":
    main()
