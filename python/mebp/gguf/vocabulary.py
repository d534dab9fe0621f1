# SPDX-License-Identifier: Apache-2.0
"""A tokenizer as llama.cpp's keys, and back: tokenizer.json of byte-level BPE, and how text is cut before it."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.exporter.template_files import FILE, FOLDER, read_templates, template_files
from mebp.files import plain_file, read_json
from mebp.gguf import lines, pieces
from mebp.gguf.byte_rules import BYTES, PRE_TOKENIZERS, names_of, rule_called
from mebp.gguf.container import Container
from mebp.gguf.fields import check_tokenizer
from mebp.words import listed, say

_ADVICE = "write a folder for transformers (-o DIR), and convert that with llama.cpp's convert_hf_to_gguf.py"
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5  # llama.cpp's types of tokens

_SPECIAL = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}  # ours and llama.cpp's
_PLAIN_NORMALIZERS = (None, {"type": "NFC"}, {"type": "Sequence", "normalizers": []})

# With these rules llama.cpp begins a text with its mark where a file does not say (src/llama-vocab.cpp).
_BEGIN = ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
          "tekken", "chameleon")  # fmt: skip
# What llama.cpp takes for the special tokens of a SentencePiece vocabulary that names none.
_USUAL = {"bos": 1, "eos": 2, "unknown": 0}
# A model with one of these names has special tokens that take the spaces behind them, but for the others here.
_STRIPPING = ("phi-3", "phi3")
_BEFORE_SPACE = ("<unk>", "<s>", "<|endoftext|>")


def vocabulary(folder: Path, vocabulary_size: int, in_lines: bool = False) -> dict[str, object]:
    """llama.cpp's keys of the tokenizer in `folder`, without tokenizer.ggml. before them.

    in_lines: whether Gemma's BPE of characters is that of Gemma 4. Says on standard error what llama.cpp cuts otherwise
    at times. Raises mebp.Error where there is no tokenizer, or one that llama.cpp would be told wrongly about.
    """
    file = folder / "tokenizer.json"
    if not plain_file(file).is_file():
        raise Error(f"{folder}: has no tokenizer.json, which a GGUF file needs; {_ADVICE}")
    tokenizer = read_json(file, "export and compile the model again")
    check_tokenizer(tokenizer, file)
    model, added = tokenizer.get("model") or {}, {entry["id"]: entry for entry in tokenizer.get("added_tokens", [])}
    _check_kind(tokenizer, file)
    largest = max([*model["vocab"].values(), *added])
    if largest >= vocabulary_size:
        raise Error(f"{file}: has token {largest}, and the model has {vocabulary_size}; export the model again")
    tokens = [*map(pieces.padding, range(vocabulary_size))]
    kinds = [_UNUSED] * vocabulary_size
    for token, number in model["vocab"].items():
        tokens[number], kinds[number] = token, _NORMAL
    for number, entry in added.items():
        tokens[number], kinds[number] = entry["content"], _CONTROL if entry.get("special") else _USER_DEFINED
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    rule, kinds = _rule_of(folder, tokenizer, tokens, kinds, in_lines)
    around = tokenizer.get("post_processor")
    ends = {"add_eos_token": True} if _has_special(around, -1) else {}
    _say_spaces(file, tokenizer)
    return {**rule, "tokens": tokens, "token_type": kinds, **({} if "scores" in rule else {"merges": merges}),
            "add_bos_token": _has_special(around, 0), **ends,
            **_special(folder, {token: number for number, token in enumerate(tokens)})}  # fmt: skip


def _check_kind(tokenizer: Mapping, file: Path) -> None:
    """Raises mebp.Error for a tokenizer that is of no kind that can be written."""
    model = tokenizer.get("model") or {}
    if _names(tokenizer) or pieces.spaces_of(tokenizer) or lines.is_in_lines(tokenizer):
        return
    if _is_in_bytes(tokenizer) and names_of(tokenizer.get("pre_tokenizer")):
        is_whole = str(bool(model.get("ignore_merges"))).lower()
        raise Error(f"{file}: has ignore_merges {is_whole}, which llama.cpp does not compute where text is cut so; "
                    f"{_ADVICE}")  # fmt: skip
    raise Error(f"{file}: is of a kind that cannot be written as GGUF here; these can: SentencePiece's BPE, and "
                f"byte-level BPE that cuts text by llama.cpp's {listed(PRE_TOKENIZERS)}; {_ADVICE}")  # fmt: skip


def _is_in_bytes(tokenizer: Mapping) -> bool:
    model = tokenizer.get("model") or {}
    is_plain = tokenizer.get("normalizer") in _PLAIN_NORMALIZERS
    return model.get("type") == "BPE" and not model.get("byte_fallback") and is_plain


def _names(tokenizer: Mapping) -> list[str]:
    """llama.cpp's of how a byte-level tokenizer.json cuts text, and does with merges what it does."""
    is_whole = bool((tokenizer.get("model") or {}).get("ignore_merges"))
    found = names_of(tokenizer.get("pre_tokenizer")) if _is_in_bytes(tokenizer) else []
    return [name for name in found if PRE_TOKENIZERS[name].ignores_merges == is_whole]


def _rule_of(
    folder: Path, tokenizer: Mapping, tokens: list[str], kinds: list[int], in_lines: bool
) -> tuple[dict[str, object], list[int]]:
    """The keys that say how a text is cut, and the tokens' types."""
    file, model = folder / "tokenizer.json", tokenizer["model"]
    if names := _names(tokenizer):
        if PRE_TOKENIZERS[names[0]].differs:
            say(f"warning: {file}: llama.cpp's rule '{names[0]}' cuts words with accents of their own, or with capital "
                "letters beyond A to Z, otherwise than transformers", error=True)  # fmt: skip
        return {"model": "gpt2", "pre": names[0]}, kinds
    spaces = pieces.spaces_of(tokenizer)
    can_be_in_lines = lines.is_in_lines(tokenizer)
    if spaces and not (in_lines and can_be_in_lines):
        typed = [pieces.kind_of(token, kind, model.get("unk_token")) for token, kind in zip(tokens, kinds, strict=True)]
        try:
            scores = pieces.scores(model["vocab"], lines.pairs(model["merges"]), typed, f"{file}", _ADVICE)
        except Error:
            if not can_be_in_lines:
                raise
        else:
            prefixed = _adds_space(folder, spaces)
            return {"model": pieces.MODEL, "scores": scores, "add_space_prefix": prefixed}, typed
    added = [entry["content"] for entry in tokenizer.get("added_tokens", [])]
    lines.check(list(model["vocab"]), lines.pairs(model["merges"]), added, f"{file}", _ADVICE)
    kinds = [lines.kind_of(token, kind, _CONTROL, _USER_DEFINED) for token, kind in zip(tokens, kinds, strict=True)]
    return {"model": lines.MODEL, "add_space_prefix": False}, kinds


def _adds_space(folder: Path, spaces: str) -> bool:
    """Whether llama.cpp puts a space before each piece of a text between special tokens."""
    if spaces in (pieces.EACH, pieces.NONE):
        return spaces == pieces.EACH
    # The texts of a chat begin with a special token, before which transformers puts none.
    adds = spaces == pieces.EACH_WITHOUT or not chat_templates(folder)
    rule = ("a piece of text that begins with none" if spaces == pieces.EACH_WITHOUT else
            "the first word of a text that begins with no special token")  # fmt: skip
    say(f"warning: {folder / 'tokenizer.json'}: transformers puts a space before {rule} alone, and llama.cpp "
        f"{'before each between special tokens' if adds else 'before none'}", error=True)  # fmt: skip
    return adds


def _say_spaces(file: Path, tokenizer: Mapping) -> None:
    """Of added tokens that take the spaces beside them."""
    added = tokenizer.get("added_tokens", [])
    found = [entry["content"] for entry in added if entry.get("lstrip") or entry.get("rstrip")]
    if found and not strips(tokenizer):
        shown = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
        say(f"warning: {file}: transformers takes off the spaces beside {shown}, and llama.cpp does not", error=True)


def strips(tokenizer: Mapping) -> bool:
    """Whether its added tokens take the spaces behind them as llama.cpp has it in Phi-3."""
    added = tokenizer.get("added_tokens", [])
    known = {entry["content"] for entry in added}
    return known.issuperset(("</s>", *_BEFORE_SPACE)) and all(
        not entry.get("lstrip") and bool(entry.get("rstrip")) == (entry["content"] not in _BEFORE_SPACE)
        for entry in added
    )


def title_for(folder: Path, title: str) -> str:
    """The name of a model, by which llama.cpp knows a Phi-3: no other may have one that says it."""
    file = folder / "tokenizer.json"
    is_stripping = file.is_file() and strips(read_json(plain_file(file), "export and compile the model again"))
    if is_stripping:
        return title if any(name in title.lower() for name in _STRIPPING) else f"{title} (Phi-3)"
    return re.sub(r"(?i)(phi)-?(?=3)", r"\1 ", title)


def chat_templates(folder: Path) -> dict[str, str]:
    """By their names; the one without is DEFAULT."""
    for name in (FILE, FOLDER, *template_files(folder)):
        plain_file(folder / name)
    return read_templates(folder, _settings(folder))


def is_pieces(container: Container) -> bool:
    """Whether the vocabulary is SentencePiece's."""
    return container.text("tokenizer.ggml.model") == pieces.MODEL


def _is_in_lines(container: Container) -> bool:
    return container.text("tokenizer.ggml.model") == lines.MODEL


def can_restore(container: Container) -> bool:
    """Whether `write_tokenizer` knows the file's rules."""
    if is_pieces(container) or _is_in_lines(container):
        return True
    return container.text("tokenizer.ggml.model") == "gpt2" and rule_called(_pre(container)) is not None


def special_id(container: Container, name: str, most: int) -> int | None:
    """Of the token that llama.cpp calls `name`: bos, eos, unknown, padding, eot or eom."""
    found = container.whole(f"tokenizer.ggml.{name}_token_id", most=most)
    usual = _USUAL.get(name, most + 1) if is_pieces(container) else most + 1
    return usual if found is None and usual <= most else found


def write_tokenizer(container: Container, folder: Path) -> None:
    """tokenizer.json, tokenizer_config.json and the template of a GGUF file's keys; the other way of `vocabulary`."""
    tokens, kinds = _tokens(container)
    numbers = {name: special_id(container, theirs, len(tokens) - 1) for name, theirs in _SPECIAL.items()}
    special = {f"{name}_token": tokens[number] for name, number in numbers.items() if number is not None}
    begins, ends = _around_text(container, tokens, kinds)
    tokenizer = {
        "version": "1.0",
        "added_tokens": _added(container, tokens, kinds),
        "post_processor": _template(tokens, begins, ends),
        **_rules_of(container)(container, tokens, kinds),
    }
    settings = {**special, "tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": begins is not None,
                "add_eos_token": ends is not None}  # fmt: skip
    _write(folder, tokenizer, settings)
    template = container.text("tokenizer.chat_template")
    if template is not None:
        (folder / FILE).write_text(template, encoding="utf-8")
    for name in filter(str.isidentifier, container.texts("tokenizer.chat_templates") or []):
        (folder / FOLDER).mkdir(exist_ok=True)
        template = container.text(f"tokenizer.chat_template.{name}", needed=True)
        (folder / FOLDER / f"{name}.jinja").write_text(template, encoding="utf-8")


def _rules_of(container: Container) -> Callable[[Container, list[str], list[int]], dict[str, object]]:
    if is_pieces(container):
        return pieces.rules
    return lines.rules if _is_in_lines(container) else _byte_rules


def set_around_text(container: Container, folder: Path) -> None:
    """What the file says of the beginning and the end of a text, for a tokenizer that transformers converted: it looks
    at neither."""
    tokens, kinds = _tokens(container)
    begins, ends = _around_text(container, tokens, kinds)
    tokenizer, settings = (read_json(folder / name, _ADVICE) for name in ("tokenizer.json", "tokenizer_config.json"))
    tokenizer["post_processor"] = _template(tokens, begins, ends)
    # As it stands, for a class of its own would make its own beginning.
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": begins is not None,
                 "add_eos_token": ends is not None}  # fmt: skip
    _write(folder, tokenizer, settings)


def _write(folder: Path, tokenizer: dict, settings: dict) -> None:
    for name, content in (("tokenizer.json", tokenizer), ("tokenizer_config.json", settings)):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _tokens(container: Container) -> tuple[list[str], list[int]]:
    """And the type of each."""
    tokens = container.texts("tokenizer.ggml.tokens", needed=True)
    kinds = container.wholes("tokenizer.ggml.token_type") or [_NORMAL] * len(tokens)
    if len(kinds) != len(tokens):
        raise Error(f"{container.path}: 'tokenizer.ggml.token_type' has {len(kinds)} entries for {len(tokens)} tokens; "
                    "download it again")  # fmt: skip
    return tokens, kinds


def _pre(container: Container) -> str:
    """What a file calls the rule by which a text is cut."""
    return container.text("tokenizer.ggml.pre") or ""


def _added(container: Container, tokens: list[str], kinds: list[int]) -> list[dict]:
    """The tokens that are looked for before a text is cut."""
    is_stripping = any(name in (container.text("general.name") or "").lower() for name in _STRIPPING)
    return [
        {"id": number, "content": token, "single_word": False, "lstrip": False, "normalized": False,
         "rstrip": is_stripping and token not in _BEFORE_SPACE, "special": kind != _USER_DEFINED}
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (_UNKNOWN, _CONTROL, _USER_DEFINED)
    ]  # fmt: skip


def _byte_rules(container: Container, tokens: list[str], kinds: list[int]) -> dict[str, object]:
    pre = _pre(container)
    rule = rule_called(pre)
    assert rule is not None  # can_restore
    return {
        "normalizer": {"type": "NFC"} if rule.composed and pre in PRE_TOKENIZERS else None,
        "pre_tokenizer": rule.pre_tokenizer,
        "decoder": BYTES,
        "model": {"type": "BPE", "ignore_merges": rule.ignores_merges,
                  "vocab": {token: number for number, token in enumerate(tokens) if kinds[number] != _UNUSED},
                  "merges": container.texts("tokenizer.ggml.merges") or []},
    }  # fmt: skip


def _around_text(container: Container, tokens: list[str], kinds: list[int]) -> tuple[int | None, int | None]:
    """The tokens that llama.cpp puts before and behind a text: by the file's keys, else by its kind of tokenizer."""
    in_lines = _is_in_lines(container)  # llama.cpp begins these always
    begins = is_pieces(container) or in_lines or container.text("tokenizer.ggml.pre") in _BEGIN
    found: list[int | None] = []
    for name, default in (("bos", begins), ("eos", False)):
        key, adds = f"tokenizer.ggml.{name}_token_id", container.flag(f"tokenizer.ggml.add_{name}_token")
        is_wanted = default if adds is None or (in_lines and name == "bos") else adds
        number = special_id(container, name, len(tokens) - 1) if is_wanted else None
        if adds and number is None:
            raise Error(f"{container.path}: 'tokenizer.ggml.add_{name}_token' is true, and it lacks '{key}'; download "
                        "it again")  # fmt: skip
        if number is not None and kinds[number] == _UNUSED:
            raise Error(f"{container.path}: '{key}' is {number}, which is not a token of the text; download it again")
        found.append(number)
    return found[0], found[1]


def _template(tokens: list[str], begins: int | None, ends: int | None) -> dict | None:
    if begins is None and ends is None:
        return None
    before, after = ([] if number is None else [{"SpecialToken": {"id": tokens[number], "type_id": 0}}]
                     for number in (begins, ends))  # fmt: skip
    first, second = ({"Sequence": {"id": name, "type_id": number}} for number, name in enumerate("AB"))
    rows = {"single": [*before, first, *after], "pair": [*before, first, second, *after]}
    special = {tokens[number]: {"id": tokens[number], "ids": [number], "tokens": [tokens[number]]}
               for number in (begins, ends) if number is not None}  # fmt: skip
    return {"type": "TemplateProcessing", **rows, "special_tokens": special}


def _has_special(found: object, place: int) -> bool:
    """Whether a post-processor puts a token before the text (place 0) or behind it (-1)."""
    if not isinstance(found, Mapping):
        return False
    if found.get("type") == "Sequence":
        return any(_has_special(each, place) for each in found.get("processors", []))
    return found.get("type") == "TemplateProcessing" and "SpecialToken" in (found.get("single") or [{}])[place]


def _settings(folder: Path) -> dict:
    file = plain_file(folder / "tokenizer_config.json")
    return read_json(file, "export and compile the model again") if file.is_file() else {}


def _special(folder: Path, numbers: Mapping[str, int]) -> dict[str, object]:
    settings = _settings(folder)
    found: dict[str, object] = {}
    for name, key in _SPECIAL.items():
        token = settings.get(f"{name}_token")
        token = token.get("content") if isinstance(token, dict) else token
        if token in numbers:
            found[f"{key}_token_id"] = numbers[token]
    return found
