# SPDX-License-Identifier: Apache-2.0
"""A tokenizer as llama.cpp's keys, and back: tokenizer.json of byte-level BPE, and how text is cut before it."""

import json
from collections.abc import Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.exporter.template_files import FILE, FOLDER, read_templates, template_files
from mebp.files import plain_file, read_json
from mebp.gguf.container import Container

_ADVICE = "write a folder for transformers (-o DIR), and convert that with llama.cpp's convert_hf_to_gguf.py"
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5  # llama.cpp's types of tokens

_SPECIAL = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}  # ours and llama.cpp's

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_BARE_BYTES = {**_BYTES, "use_regex": False}
_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")  # fmt: skip


def _split(digits: str) -> dict:
    pattern = {"Regex": _WORDS.replace("DIGITS", digits)}
    cut = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [cut, _BARE_BYTES]}


# By what llama.cpp calls each; it knows the same rules by these names.
PRE_TOKENIZERS = {
    "gpt-2": _BYTES,
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _BYTES]},
    "qwen2": _split(""),
    "llama-bpe": _split("{1,3}"),
}


def vocabulary(folder: Path, vocabulary_size: int) -> dict[str, object]:
    """llama.cpp's keys of the tokenizer in `folder`, without tokenizer.ggml. before them.

    Raises mebp.Error where there is none, or one that llama.cpp would be told wrongly about.
    """
    file = folder / "tokenizer.json"
    if not plain_file(file).is_file():
        raise Error(f"{folder}: has no tokenizer.json, which a GGUF file needs; {_ADVICE}")
    tokenizer = read_json(file, "export and compile the model again")
    model = tokenizer.get("model") or {}
    pre = _pre_name(tokenizer.get("pre_tokenizer"))
    plain = tokenizer.get("normalizer") in (None, {"type": "NFC"})
    if model.get("type") != "BPE" or model.get("byte_fallback") or pre is None or not plain:
        raise Error(f"{file}: is of a kind that cannot be written as GGUF here, for only byte-level BPE cut as by "
                    f"{', '.join(PRE_TOKENIZERS)} can; {_ADVICE}")  # fmt: skip
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
    return {"model": "gpt2", "pre": pre, "tokens": tokens, "token_type": kinds, "merges": merges,
            "add_bos_token": _begins_with_special(tokenizer.get("post_processor")),
            **_special(folder, numbers)}  # fmt: skip


def chat_templates(folder: Path) -> dict[str, str]:
    """By their names; the one without is DEFAULT."""
    for name in (FILE, FOLDER, *template_files(folder)):
        plain_file(folder / name)
    return read_templates(folder, _settings(folder))


def can_restore(container: Container) -> bool:
    """Whether `write_tokenizer` knows the file's rules."""
    return container.text("tokenizer.ggml.model") == "gpt2" and container.text("tokenizer.ggml.pre") in PRE_TOKENIZERS


def write_tokenizer(container: Container, folder: Path) -> None:
    """tokenizer.json, tokenizer_config.json and the template of a GGUF file's keys; the other way of `vocabulary`."""
    tokens = container.texts("tokenizer.ggml.tokens", needed=True)
    pre = container.text("tokenizer.ggml.pre", needed=True)
    kinds = container.wholes("tokenizer.ggml.token_type") or [_NORMAL] * len(tokens)
    if len(kinds) != len(tokens):
        raise Error(f"{container.path}: 'tokenizer.ggml.token_type' has {len(kinds)} entries for {len(tokens)} tokens; "
                    "download it again")  # fmt: skip
    added = [
        {"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": kind == _CONTROL}
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True)) if kind in (_CONTROL, _USER_DEFINED)
    ]  # fmt: skip
    known = {token: number for number, token in enumerate(tokens) if kinds[number] != _UNUSED}
    numbers = {name: container.whole(f"tokenizer.ggml.{theirs}_token_id", most=len(tokens) - 1)
               for name, theirs in _SPECIAL.items()}  # fmt: skip
    special = {f"{name}_token": tokens[number] for name, number in numbers.items() if number is not None}
    adds = container.flag("tokenizer.ggml.add_bos_token")
    begins = special.get("bos_token") if (pre == "llama-bpe" if adds is None else adds) else None
    if begins is not None and begins not in known:
        raise Error(f"{container.path}: 'tokenizer.ggml.bos_token_id' is {numbers['bos']}, which is not a token of the "
                    "text; download it again")  # fmt: skip
    tokenizer = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if pre == "qwen2" else None,
        "pre_tokenizer": PRE_TOKENIZERS[pre],
        "post_processor": _template(begins, known) if begins else None,
        "decoder": _BYTES,
        "model": {"type": "BPE", "ignore_merges": pre == "llama-bpe", "vocab": known,
                  "merges": container.texts("tokenizer.ggml.merges") or []},
    }  # fmt: skip
    settings = {**special, "tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": bool(begins)}
    for name, content in (("tokenizer.json", tokenizer), ("tokenizer_config.json", settings)):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    template = container.text("tokenizer.chat_template")
    if template is not None:
        (folder / FILE).write_text(template, encoding="utf-8")
    for name in filter(str.isidentifier, container.texts("tokenizer.chat_templates") or []):
        (folder / FOLDER).mkdir(exist_ok=True)
        template = container.text(f"tokenizer.chat_template.{name}", needed=True)
        (folder / FOLDER / f"{name}.jinja").write_text(template, encoding="utf-8")


def _template(begins: str, known: Mapping[str, int]) -> dict:
    bos = {"SpecialToken": {"id": begins, "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": number}} for number, name in enumerate("AB"))
    rows = {"single": [bos, first], "pair": [bos, first, second]}
    special = {begins: {"id": begins, "ids": [known[begins]], "tokens": [begins]}}
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
