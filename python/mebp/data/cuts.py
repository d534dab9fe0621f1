# SPDX-License-Identifier: Apache-2.0
"""Where a text may be cut so that its parts have the ids that the whole text has.

A cut is between a letter, digit or sign and a lone space with another one after it; or after a lone line end. Which of
these are sure depends on the tokenizer:

1. No token of its vocabulary reaches over the cut. Merges (BPE) then never do. Other models see words alone, so with
   these the tokenizer has to begin a word at each cut.
2. No token that was added to the vocabulary is at the cut, for some of them take in the spaces around them.
3. Random texts have the same ids in parts as whole. That shows rules in which what is left of a cut changes what is
   right of it, and whether the tokenizer puts a space of its own before each part.

Where a tokenizer has no sure cut, texts stay whole.
"""

import random
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as Backend

BLOCK = 1 << 16  # characters; the tokenizer takes 180 bytes for each
_SIGNS = string.ascii_letters + string.digits + string.punctuation
# Letters beyond ASCII that neither join with a space nor become one, whichever form of Unicode a text is brought to.
_LETTERS = (
    "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0148\u014a-\u02af\u0388-\u03ce\u0400-\u0481\u048a-\u052f"
    "\u05d0-\u05ea\u0620-\u064a\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3"
)
_SPACES = "\u0120\u2581 "  # as vocabularies write a space
_PROBES = 300
_EXAMPLES = (
    "It's  1,024 boats.\nTwo\n\n  lamps (so: far) 'n more\t...  end\n x\n\n\ny\n",
    "don't can't I'm he'll we've YOU'RE 's 't a 'll b",
    "https://a.b/c?d=e f@g.h x_y fooBar HTMLParser 3D $5.00 10% #1 A. B. C. e.g. i.e.",
    "def f(x):\n    return x + 1  # one\n/* two */\n/three\n!\n/four\n",
)


_ALONE = "\0"  # before a part that no space is before


@dataclass(frozen=True)
class Cuts:
    """Parts of a text are what was between the spaces of cuts; one that does not follow such a space has a mark."""

    space: re.Pattern[str] | None  # that is left out at a cut; None: there is no cut
    line_end: re.Pattern[str] | None = None  # that a cut follows
    both: re.Pattern[str] | None = None  # matches at a cut, and nothing
    adds_space: bool = False  # the tokenizer itself, before each part
    places: bool = False  # the characters that tokens stand for are the same, too

    @classmethod
    def of(cls, backend: "Backend | None") -> "Cuts":
        """Those that are sure with this tokenizer."""
        if backend is None or getattr(backend.model, "dropout", None):
            return cls(None)
        before, after, line = _classes(backend)
        if before is None:
            return cls(None)
        probes = _probes()
        whole = [backend.encode(probe, add_special_tokens=False) for probe in probes]
        space = re.compile(f" (?={after})(?<={before} )")
        for line_end, adds_space in ((line, False), (None, False), (None, True)):
            at_line = f"|(?<={before}\n)(?={line_end})" if line_end else ""
            end = re.compile(f"\n(?={line_end})(?<={before}\n)") if line_end else None
            cuts = cls(space, end, re.compile(f"(?<={before})(?= {after}){at_line}"), adds_space)
            if cuts._holds(backend, probes, whole):
                return replace(cuts, places=not adds_space and cuts._keeps_places(backend, probes, whole))
        return cls(None)

    def split(self, text: str, begins: bool = True) -> tuple[list[str], list[int]]:
        """The parts of `text`, and the numbers of those that have the mark; without `begins`, of a text that goes on
        where another was cut."""
        if self.space is None:
            return [_ALONE + text], [0]
        if not begins and self.adds_space:
            text = text.removeprefix(" ")
        if self.line_end is None or "\n" not in text:
            first, *others = self.space.split(text)
            return [_ALONE + first, *others], [0]
        parts, alone = [], []
        *lines, last = self.line_end.split(text)
        for line in (*(line + "\n" for line in lines), last):
            first, *others = self.space.split(line)
            alone.append(len(parts))
            parts.append(_ALONE + first)
            parts += others
        return parts, alone

    def split_on(self, parts: Sequence[str], more: str) -> list[str]:
        """The parts of a text that goes on with `more` behind these."""
        *kept, last = parts
        first, *others = self.split(last.removeprefix(_ALONE) + more)[0]
        return [*kept, first if last.startswith(_ALONE) else first.removeprefix(_ALONE), *others]

    def given(self, parts: Iterable[str]) -> list[str]:
        """Parts as the tokenizer is to be given them: as they stand in the text, or without the space that it adds."""
        space = "" if self.adds_space else " "
        return [part[1:] if part.startswith(_ALONE) else space + part for part in parts]

    def blocks(self, parts: Iterable[str]) -> Iterator[str]:
        """A text that comes in parts, in others of about 64 KiB that end at cuts."""
        if self.both is None:
            yield "".join(parts)
            return
        held = ""
        for part in parts:
            begin, held = max(1, len(held)), held + part
            if len(held) >= BLOCK and (cut := self.both.search(held, begin)):
                yield held[: cut.start()]
                held = held[cut.start() :]
        yield held

    def _holds(self, backend: "Backend", probes: Sequence[str], whole: "Sequence[Encoding]") -> bool:
        model = backend.model
        by_words = type(model).__name__ != "BPE" or model.end_of_word_suffix or model.continuing_subword_prefix
        for probe, expected in zip(probes, whole, strict=True):
            parts = (backend.encode(part, add_special_tokens=False) for part in self.given(self.split(probe)[0]))
            if [token for part in parts for token in part.ids] != expected.ids:
                return False
            if by_words and not all(_is_between_words(expected, cut.start()) for cut in self.both.finditer(probe)):
                return False
        return True

    def _keeps_places(self, backend: "Backend", probes: Sequence[str], whole: "Sequence[Encoding]") -> bool:
        for probe, expected in zip(probes, whole, strict=True):
            begin, places = 0, []
            for part in self.given(self.split(probe)[0]):
                encoded = backend.encode(part, add_special_tokens=False)
                places += [(begin + start, begin + end) for start, end in encoded.offsets]
                begin += len(part)
            if places != expected.offsets:
                return False
        return True


def _is_between_words(encoding: "Encoding", cut: int) -> bool:
    before, after = encoding.char_to_word(cut - 1), encoding.char_to_word(cut)
    if after is None:  # a space that is in no word
        after = encoding.char_to_word(cut + 1)
    return before is None or before != after


def _classes(backend: "Backend") -> tuple[str | None, str, str | None]:
    """Of characters before a space and after it, and after a line end, without those that a token may reach over."""
    vocabulary = "\0".join(backend.get_vocab(with_added_tokens=False))
    added = [token.content for token in backend.get_added_tokens_decoder().values() if token.content]
    texts = vocabulary + "\0" + "\0".join(added)
    before = set(re.findall(rf"([^\0{_SPACES}])[{_SPACES}]", texts)) | {text[-1] for text in added}
    after = {text[0] for text in added}
    after_line = set(re.findall(r"[\n\u010a]([^\0])", texts)) | after
    # The bytes of other letters have signs of their own in a vocabulary of bytes.
    plain = all(character.isascii() for character in before - set("\n\u010a\u010d\u0109") | after)
    letters = "".join(sorted(set(string.ascii_letters + string.digits) - _cases(after_line)))
    if not set(string.ascii_lowercase) - _cases(before):  # tokens reach over spaces as a rule
        return None, "", None
    return _class(before, plain), _class(after, plain), f"[{letters}]" if letters else None


def _class(excluded: set[str], with_letters: bool) -> str:
    signs = "".join(re.escape(sign) for sign in _SIGNS if sign not in _cases(excluded))
    return f"[{signs}{_LETTERS if with_letters else ''}]"


def _cases(characters: set[str]) -> set[str]:
    # Some added tokens are looked for in a text that was made lower case before.
    return {case for character in characters for case in (character, character.lower(), character.upper())}


def _probes() -> list[str]:
    """Texts of all kinds of characters, the same in every run."""
    chance = random.Random(39)
    kinds = (string.ascii_lowercase, string.ascii_uppercase, string.digits, string.punctuation, "'.,-",
             "\u00e9\u00df\u0159\u00d8", "\u0436\u0416\u03b1\u05d0\u0628", "\u4e2d\u56fd\u3042\u30ab")  # fmt: skip
    between = (" ", " ", " ", " ", "  ", "\n", "\n\n", "\t", "\n ", "")

    def word() -> str:
        kind = chance.choice(kinds)
        return "".join(chance.choice(kind) for _ in range(chance.randint(1, 7)))

    texts = ["".join(word() + chance.choice(between) for _ in range(chance.randint(2, 9))) for _ in range(_PROBES)]
    return [*_EXAMPLES, *texts]
