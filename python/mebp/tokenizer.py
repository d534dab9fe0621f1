# SPDX-License-Identifier: Apache-2.0
"""A bundle's tokenizer, by the `tokenizers` package alone: transformers would cost seconds and hundreds of MB."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from mebp.errors import Error, translate_errors
from mebp.files import own_file, read_json, user_path
from mebp.numbers import checked

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as Backend

# What models of several families put between documents; where a vocabulary has none, its end-of-sequence token.
ALL_TOKENS = ("all",)  # of --train-tokens: every row that the model has
_END_OF_TEXT = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]")
_ADVICE = "export the model again"
_CONFIG, _ADDED = "tokenizer_config.json", "added_tokens_decoder"
_OWN_TOKENIZER = "use the tokenizer that the model was trained with"
# The first is all that most tokenizers need; a vocabulary may be of another script.
_PROBES = (
    "a",
    "The lamp is lit at 7. \u041b\u0430\u043c\u043f\u0430 \u0433\u043e\u0440\u0438\u0442. \u706f\u4eae\u4e86\u3002",
)
_RARE = "\U00013000"  # a hieroglyph


class Tokenizer:
    """Text to token ids and back."""

    threads: int | None = None  # that make tokens of several texts: 1, or as many as there are cores

    @checked
    def __init__(self, bundle: str | Path) -> None:
        """Reads NAME.mebp/tokenizer/tokenizer.json and the settings beside it."""
        bundle = user_path(bundle)
        if not bundle.is_dir():
            raise Error(f"no bundle at {bundle}; make one with mebpc")
        self._read(bundle / "tokenizer", "the model was exported without a tokenizer; train with mebp-run --tokens")

    @classmethod
    def of_model(cls, folder: Path, new: Sequence[str] = ()) -> "Tokenizer":
        """The same of a Hugging Face folder, with `new` tokens behind its own. Raises mebp.Error where it has one."""
        tokenizer = cls.__new__(cls)
        tokenizer._read(folder, "training on text needs it; save it there with AutoTokenizer's save_pretrained")
        tokenizer._add(new)
        return tokenizer

    def _read(self, folder: Path, hint: str) -> None:
        from tokenizers import Tokenizer as FastTokenizer

        self.folder = folder
        path = own_file(self.folder / "tokenizer.json")
        if not path.is_file():
            raise Error(f"{path}: does not exist: {hint}")
        with translate_errors(f"{path}: cannot be read", _ADVICE, Exception):  # which is what the package raises
            self._tokenizer = FastTokenizer.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._add_stated()
        self.before_text, self.after_text = self._find_around_text()
        self._stated_ends = self._read_stated_ends()
        self.end_of_text = self._choose_end_of_text()
        self.end_of_sequence = next(iter(self._stated_ends), self.end_of_text)
        self.stop_tokens = {*self._stated_ends, self.end_of_text}
        added = self._tokenizer.get_added_tokens_decoder().items()
        self.added_tokens = {index: token.content for index, token in added}  # special or not
        self.special_tokens = {*self.stop_tokens, *(index for index, token in added if token.special)}

    def _add_stated(self) -> None:
        """Adds the tokens that stand in tokenizer_config.json alone, or otherwise than in tokenizer.json, as
        transformers does."""
        from tokenizers import AddedToken

        path, settings = self.folder / _CONFIG, self.settings(_CONFIG)
        known = set(map(repr, self._tokenizer.get_added_tokens_decoder().values()))
        with translate_errors(f"{path}: added_tokens_decoder is not as transformers writes it", _ADVICE, Exception):
            entries = sorted((int(index), token) for index, token in (settings.get(_ADDED) or {}).items())
            stated = {index: AddedToken(**token) for index, token in entries}
        for index, token in stated.items():
            if repr(token) in known:
                continue
            self._tokenizer.add_tokens([token])
            found = self._tokenizer.token_to_id(token.content)
            if found != index:
                raise Error(
                    f"{path}: gives {token.content!r} the id {index}, and by tokenizer.json it has {found}; save the "
                    "tokenizer again with transformers"
                )
        named = [*self.named_special_tokens.values(), *_texts(settings, "additional_special_tokens")]
        named += _texts(settings, "extra_special_tokens")
        known = {token.content for token in self._tokenizer.get_added_tokens_decoder().values()}
        new = [text for text in dict.fromkeys(named) if text and text not in known]
        self._tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in new])

    def _add(self, new: Sequence[str]) -> None:
        from tokenizers import AddedToken

        for text in new:
            if (known := self.id_of(text)) is not None:
                raise Error(
                    f"--train-tokens: {self.folder / 'tokenizer.json'} has {text!r} already, as token {known}; leave "
                    "it out, for new tokens alone have rows of their own to train"
                )
            self._tokenizer.add_tokens([AddedToken(text, special=False, normalized=False)])
            self.added_tokens[self.id_of(text)] = text

    def id_of(self, text: str) -> int | None:
        """Of a text that is one token; None where the vocabulary does not have it."""
        return self._tokenizer.token_to_id(text)

    def encode(self, text: str) -> list[int]:
        """The token ids of `text`, without any added at its ends."""
        return self._encoding(text, add_special_tokens=False).ids

    def encode_document(self, text: str) -> list[int]:
        """As encode, after what the model wants before a text that stands alone, such as <bos>."""
        return begun(self.encode(text), self.before_text)

    def encode_sample(self, text: str, pair: str | None = None, at_most: int | None = None) -> list[int]:
        """As an encoder takes a text or two, with what the model wants around them, such as [CLS] and [SEP]; cut to
        `at_most` tokens, all of which stay that are not the text's."""
        with self._cutting(at_most):
            return self._encoding(text, pair, add_special_tokens=True).ids

    @contextmanager
    def _cutting(self, at_most: int | None) -> Iterator[None]:
        if at_most is not None:
            self._tokenizer.enable_truncation(at_most)
        try:
            yield
        finally:
            self._tokenizer.no_truncation()

    def encode_words(self, words: Sequence[str], at_most: int | None = None) -> tuple[list[int], list[int | None]]:
        """As encode_sample of these words with spaces between them, and of each token which word it is of; None where
        it is of none. Tokens are those of the text: byte-level ones begin with the space before a word."""
        ends = list(accumulate(len(word) + 1 for word in words))  # behind a word and its space
        with self._cutting(at_most):
            encoding = self._encoding(" ".join(words), add_special_tokens=True)
        places = zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
        return encoding.ids, [
            None if special or not end else bisect_right(ends, end - 1) for (_, end), special in places
        ]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """As encode, and which characters [start, end) of `text` each token stands for."""
        encoding = self._encoding(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def encode_together(self, texts: Sequence[str]) -> list[list[int]]:
        """As encode of each, by several threads."""
        return [each.ids for each in self._together(self._tokenizer.encode_batch_fast, texts)]

    def encode_together_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """As encode_with_offsets of each, by several threads."""
        return [(each.ids, each.offsets) for each in self._together(self._tokenizer.encode_batch, texts)]

    def _together(self, encode: "Callable[..., list[Encoding]]", texts: Sequence[str]) -> "list[Encoding]":
        # The package has as many threads as the machine has cores, and with one text none.
        if self.threads == 1:
            return [self._encoding(text, add_special_tokens=False) for text in texts]
        with self._translating():
            return encode(list(texts), add_special_tokens=False)

    def _encoding(self, *texts: str | None, add_special_tokens: bool) -> "Encoding":
        with self._translating():
            return self._tokenizer.encode(*texts, add_special_tokens=add_special_tokens)

    def _translating(self) -> AbstractContextManager[None]:
        """The package raises what names no file, as where a vocabulary lacks the token of unknown text."""
        path = self.folder / "tokenizer.json"
        return translate_errors(f"{path}: makes no tokens of some text", _OWN_TOKENIZER, Exception)

    @property
    def backend(self) -> "Backend":
        """The tokenizers package's own object."""
        return self._tokenizer

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, without special tokens."""
        with translate_errors("ids cannot be made a text", "give a list of token ids", (TypeError, OverflowError)):
            return self._tokenizer.decode(ids, skip_special_tokens=True)

    @property
    def padding(self) -> int:
        """What the model calls its pad_token; the end of a text where it names none."""
        named = self.named_special_tokens.get("pad_token")
        index = None if named is None else self._tokenizer.token_to_id(named)
        return self.end_of_text if index is None else index

    @property
    def size(self) -> int:
        """Ids of the text's tokens are below this number."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    @property
    def mask(self) -> int:
        """What stands for a masked token. Raises mebp.Error where the model has none."""
        named = self.named_special_tokens.get("mask_token")
        index = None if named is None else self._tokenizer.token_to_id(named)
        if index is None:
            raise Error(
                f"{self.folder}: names no mask token, which --task fill-mask puts in place of others; add mask_token "
                "to tokenizer_config.json"
            )
        return index

    @cached_property
    def unknown(self) -> int | None:
        """What stands for text that the vocabulary does not have; None where there is no such text, as with bytes."""
        named = (getattr(self._tokenizer.model, "unk_token", None), self.named_special_tokens.get("unk_token"))
        known = {self._tokenizer.token_to_id(name) for name in named if isinstance(name, str)}
        return next((index for index in self.encode(_RARE) if index in known), None) if known - {None} else None

    @property
    def named_special_tokens(self) -> dict[str, str]:
        """What the model calls bos_token, eos_token and the like."""
        stated = self.settings("special_tokens_map.json") | self.settings(_CONFIG)
        tokens = {name: token.get("content") if isinstance(token, dict) else token for name, token in stated.items()}
        return {name: text for name, text in tokens.items() if name.endswith("_token") and isinstance(text, str)}

    def settings(self, file: str) -> dict:
        """The JSON object in a file beside tokenizer.json; empty where there is no such file."""
        path = own_file(self.folder / file)
        return read_json(path, _ADVICE) if path.is_file() else {}

    def _find_around_text(self) -> tuple[list[int], list[int]]:
        """What the model wants before a text that stands alone, and behind it."""
        encodings = (self._encoding(text, add_special_tokens=True) for text in _PROBES)
        encoding = next((each for each in encodings if 0 in each.special_tokens_mask), None)
        if encoding is None:
            path = self.folder / "tokenizer.json"
            raise Error(f"{path}: makes no token of '{_PROBES[-1]}'; {_OWN_TOKENIZER}")
        first = encoding.special_tokens_mask.index(0)
        last = len(encoding.ids) - encoding.special_tokens_mask[::-1].index(0)
        return encoding.ids[:first], encoding.ids[last:]

    def _read_stated_ends(self) -> list[int]:
        named = self.named_special_tokens.get("eos_token")
        ends = [] if named is None else [self._tokenizer.token_to_id(named)]
        for file in ("generation_config.json", "config.json"):
            value = self.settings(file).get("eos_token_id")
            stated = value if isinstance(value, list) else [value]
            if not all(end is None or type(end) is int for end in stated):
                raise Error(f"{self.folder / file}: eos_token_id is not a number or a list of them; correct it")
            ends += stated
        return [end for end in dict.fromkeys(ends) if end is not None]

    def _choose_end_of_text(self) -> int:
        known = (self._tokenizer.token_to_id(token) for token in _END_OF_TEXT)
        chosen = next((token for token in known if token is not None), None)
        if chosen is None:
            chosen = next(iter(self._stated_ends), None)
        if chosen is None:
            raise Error(f"{self.folder}: names no end-of-text token; add eos_token to tokenizer_config.json")
        return chosen


def check_tokens(new: str | Sequence[str]) -> tuple[str, ...]:
    """Those of --train-tokens, a list or a text with commas, or ALL_TOKENS; raises mebp.Error for what cannot be
    tokens."""
    for text in (texts := tuple(new.split(",") if isinstance(new, str) else new)):
        if (
            not isinstance(text, str)
            or not text.strip()
            or text.startswith("-")
            or text != text.strip()
            or texts.count(text) > 1
        ):
            raise Error(f"--train-tokens has {text!r}; give different tokens, such as '<|tool|>,<|end_tool|>'")
    if ALL_TOKENS[0] in texts[1:] or texts[:1] == ALL_TOKENS != texts:
        raise Error("--train-tokens all trains every row that the model has, and new tokens get rows of their own; "
                    "give one of the two")  # fmt: skip
    return texts


def trained_tokens(bundle: Path, description: Mapping) -> tuple[str, ...]:
    """Those whose rows a bundle trains, which mebp.inspect describes so."""
    rows = next((each for each in description["trainables"] if "rows_of" in each), None)
    if rows is None:
        return ()
    added = Tokenizer(bundle).added_tokens
    return tuple(added[rows["first_row"] + number] for number in range(rows["rows"]))


def begun(ids: list[int], before: Sequence[int]) -> list[int]:
    """The ids after what the model wants before a text; a text that begins with it gets no second one."""
    return ids if ids[: len(before)] == [*before] else [*before, *ids]


def _texts(settings: dict, key: str) -> list[str]:
    """The tokens of a list or a mapping, each a text or an object with its content."""
    stated = settings.get(key) or []
    values = stated.values() if isinstance(stated, dict) else stated if isinstance(stated, list) else []
    texts = (value.get("content") if isinstance(value, dict) else value for value in values)
    return [text for text in texts if isinstance(text, str)]
