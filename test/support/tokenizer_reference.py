# SPDX-License-Identifier: Apache-2.0
"""libmebp_text beside `tokenizers`, which gives the same ids, offsets and texts."""

import os
from pathlib import Path

from tokenizers import Tokenizer

from support.text_tokenizer import TextTokenizer

# All but those of planes that have none, or private ones.
CHARACTERS = [chr(code) for code in (*range(1, 0xD800), *range(0xE000, 0x34000), *range(0xE0000, 0xE0200))]


def corpus() -> str:
    """What MEBP_WIKITEXT names, or this repository's pages."""
    if "MEBP_WIKITEXT" in os.environ:
        return Path(os.environ["MEBP_WIKITEXT"]).read_text(encoding="utf-8")
    pages = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def lines() -> list[str]:
    """To train on."""
    return [line for line in corpus().split("\n") if len(line) < 2000][:4000]


def compare(written: str, given: list[str]) -> None:
    reference, ours = Tokenizer.from_str(written), TextTokenizer(written.encode())
    reference.no_truncation()
    reference.no_padding()
    streams = reference.decoder.__class__.__name__ != "WordPiece"
    for text in given:
        plain = reference.encode(text, add_special_tokens=False)
        assert ours.place(text) == (plain.ids, plain.offsets), ascii(text)
        for special in (False, True):
            ids = reference.encode(text, add_special_tokens=special).ids
            assert ours.encode(text, special) == ids, ascii(text)
            whole = reference.decode(ids, skip_special_tokens=special)
            assert ours.decode(ids, special) == whole, ascii(text)
            if streams:
                assert "".join(ours.stream(ids, special)) == whole, ascii(text)
    assert ours.vocabulary() == max(reference.get_vocab().values()) + 1
    ours.close()


def compare_every_character(written: str) -> None:
    reference, ours = Tokenizer.from_str(written), TextTokenizer(written.encode())
    for begin in range(0, len(CHARACTERS), 64):
        text = "".join(f"a{character}'{character}1 " for character in CHARACTERS[begin : begin + 64])
        expected = reference.encode(text, add_special_tokens=False)
        assert ours.encode(text) == expected.ids, hex(begin)
        assert ours.place(text) == (expected.ids, expected.offsets), hex(begin)
    ours.close()
