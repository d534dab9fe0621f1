# SPDX-License-Identifier: Apache-2.0
"""A tokenizer as llama.cpp's keys, and back: tokenizer.json of byte-level BPE, and how text is cut before it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.exporter.template_files import FILE, FOLDER, read_templates, template_files
from mebp.files import plain_file, read_json
from mebp.gguf import lines, pieces
from mebp.gguf.container import Container
from mebp.gguf.fields import check_tokenizer

_ADVICE = "write a folder for transformers (-o DIR), and convert that with llama.cpp's convert_hf_to_gguf.py"
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5  # llama.cpp's types of tokens

_SPECIAL = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}  # ours and llama.cpp's

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_BARE_BYTES = {**_BYTES, "use_regex": False}
_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?LETTERS+|\p{N}DIGITS| ?[^\s\p{L}MARKS\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")  # fmt: skip


def _split(digits: str, with_marks: bool = False) -> dict:
    """with_marks: a word has accents that are characters of their own."""
    letters, marks = (r"[\p{L}\p{M}]", r"\p{M}") if with_marks else (r"\p{L}", "")
    pattern = {"Regex": _WORDS.replace("DIGITS", digits).replace("LETTERS", letters).replace("MARKS", marks)}
    cut = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [cut, _BARE_BYTES]}


# By what llama.cpp calls each; it knows the same rules by these names.
PRE_TOKENIZERS = {
    "gpt-2": _BYTES,
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _BYTES]},
    "qwen2": _split(""),
    "llama-bpe": _split("{1,3}"),
    "qwen35": _split("", with_marks=True),
}
# Other names of the same, by which files are converted.
_SAME = {"lfm2": "llama-bpe"}

# With these rules llama.cpp begins a text with its mark where a file does not say (src/llama-vocab.cpp).
_BEGIN = ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
          "tekken", "chameleon")  # fmt: skip
# What llama.cpp takes for the special tokens of a SentencePiece vocabulary that names none.
_USUAL = {"bos": 1, "eos": 2, "unknown": 0}
# These stay as they are where llama.cpp takes off the space behind a special token.
_BEFORE_SPACE = ("<unk>", "<s>", "<|endoftext|>")


def vocabulary(folder: Path, vocabulary_size: int) -> dict[str, object]:
    """llama.cpp's keys of the tokenizer in `folder`, without tokenizer.ggml. before them.

    Raises mebp.Error where there is none, or one that llama.cpp would be told wrongly about.
    """
    file = folder / "tokenizer.json"
    if not plain_file(file).is_file():
        raise Error(f"{folder}: has no tokenizer.json, which a GGUF file needs; {_ADVICE}")
    tokenizer = read_json(file, "export and compile the model again")
    check_tokenizer(tokenizer, file)
    model = tokenizer.get("model") or {}
    pre = _pre_name(tokenizer.get("pre_tokenizer"))
    plain = tokenizer.get("normalizer") in (None, {"type": "NFC"})
    in_bytes = model.get("type") == "BPE" and not model.get("byte_fallback") and pre is not None and plain
    in_lines = lines.is_in_lines(tokenizer)
    if not in_bytes and not in_lines:
        raise Error(f"{file}: is of a kind that cannot be written as GGUF here, for only byte-level BPE cut as by "
                    f"{', '.join(PRE_TOKENIZERS)} can, and Gemma's; {_ADVICE}")  # fmt: skip
    added = {entry["id"]: entry for entry in tokenizer.get("added_tokens", [])}
    largest = max([*model["vocab"].values(), *added])
    if largest >= vocabulary_size:
        raise Error(f"{file}: has token {largest}, and the model has {vocabulary_size}; export the model again")
    tokens = [f"[PAD{number}]" for number in range(vocabulary_size)]
    kinds = [_UNUSED] * vocabulary_size
    for token, number in model["vocab"].items():
        tokens[number], kinds[number] = token, _NORMAL
    for number, entry in added.items():
        tokens[number], kinds[number] = entry["content"], _CONTROL if entry.get("special") else _USER_DEFINED
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    numbers = {token: number for number, token in enumerate(tokens)}
    if in_lines:
        lines.check_file(model, [*model["vocab"]], [entry["content"] for entry in added.values()], file, _ADVICE)
        kinds = [lines.kind_of(token, kind, _CONTROL, _USER_DEFINED) for token, kind in zip(tokens, kinds, strict=True)]
    rule = {"model": lines.MODEL, "add_space_prefix": False} if in_lines else {"model": "gpt2", "pre": pre}
    return {**rule, "tokens": tokens, "token_type": kinds, "merges": merges,
            "add_bos_token": _begins_with_special(tokenizer.get("post_processor")),
            **_special(folder, numbers)}  # fmt: skip


def chat_templates(folder: Path) -> dict[str, str]:
    """By their names; the one without is DEFAULT."""
    for name in (FILE, FOLDER, *template_files(folder)):
        plain_file(folder / name)
    return read_templates(folder, _settings(folder))


def is_pieces(container: Container) -> bool:
    """Whether the vocabulary is SentencePiece's."""
    return container.text("tokenizer.ggml.model") == "llama"


def _is_in_lines(container: Container) -> bool:
    return container.text("tokenizer.ggml.model") == lines.MODEL


def can_restore(container: Container) -> bool:
    """Whether `write_tokenizer` knows the file's rules."""
    if is_pieces(container) or _is_in_lines(container):
        return True
    return container.text("tokenizer.ggml.model") == "gpt2" and _rule(container) in PRE_TOKENIZERS


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


def _rule(container: Container) -> str:
    """By which a text is cut, as PRE_TOKENIZERS has it."""
    pre = container.text("tokenizer.ggml.pre") or ""
    return _SAME.get(pre, pre)


def _added(container: Container, tokens: list[str], kinds: list[int]) -> list[dict]:
    """The tokens that are looked for before a text is cut."""
    strips = any(name in (container.text("general.name") or "").lower() for name in ("phi-3", "phi3"))
    return [
        {"id": number, "content": token, "single_word": False, "lstrip": False, "normalized": False,
         "rstrip": strips and token not in _BEFORE_SPACE, "special": kind != _USER_DEFINED}
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (_UNKNOWN, _CONTROL, _USER_DEFINED)
    ]  # fmt: skip


def _byte_rules(container: Container, tokens: list[str], kinds: list[int]) -> dict[str, object]:
    pre = _rule(container)
    return {
        "normalizer": {"type": "NFC"} if pre in ("qwen2", "qwen35") else None,
        "pre_tokenizer": PRE_TOKENIZERS[pre],
        "decoder": _BYTES,
        "model": {"type": "BPE", "ignore_merges": pre == "llama-bpe",
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


def _begins_with_special(found: object) -> bool:
    """Whether a post-processor puts a token before the text."""
    if not isinstance(found, Mapping):
        return False
    if found.get("type") == "Sequence":
        return any(map(_begins_with_special, found.get("processors", [])))
    return found.get("type") == "TemplateProcessing" and "SpecialToken" in (found.get("single") or [{}])[0]


def _pre_name(found: object) -> str | None:
    return next((name for name, rule in PRE_TOKENIZERS.items() if _rules(rule) == _rules(found)), None)


def _rules(found: object) -> list:
    """Without what changes no token."""
    if not isinstance(found, Mapping):
        return [found]
    if found.get("type") == "Sequence":
        return [rule for each in found.get("pretokenizers", []) for rule in _rules(each)]
    ignored = ("trim_offsets", "invert") if found.get("type") in ("ByteLevel", "Split") else ()
    return [{key: value for key, value in found.items() if key not in ignored}]


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
