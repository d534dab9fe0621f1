# SPDX-License-Identifier: Apache-2.0
"""Small vocabularies that are learned here, by any rule to cut text, as a folder of transformers has them."""

import json
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from mebp.gguf.byte_rules import BYTES as BYTE_LEVEL
from mebp.gguf.model import ModelWriter
from mebp.gguf.pieces import BYTES, SPACE

SPECIAL = ["<unk>", "<s>", "</s>", "<|user|>", "<|end|>", "<|endoftext|>"]
WORDS = 900
# Without accents of their own, and without capital letters beyond A to Z before small ones that are not.
PLAIN_TEXTS = [
    "Hello, it's   a TEST of 1024 and 12345678 words; they'LL don't\n\n\tdef f(x):\n        return x+1  # ok\r\n\r\n",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3001\u6f22\u5b57\u304b\u306a\u4ea4\u3058\u308a\u3002"
    "\u4e2d\u6587\u5b57\u7b26\uff0c\u6e2c\u8a66\uff01 \ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8\ub3c4. ",
    "\u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac \u03ba\u03b5\u03af\u03bc\u03b5\u03bd\u03b1 \u043a\u0438\u0440"
    "\u0438\u043b\u043b\u0438\u0446\u0430, \u0435\u0449\u0451; na\u00efve stra\u00dfe",
    "\u05e2\u05d1\u05e8\u05d9\u05ea  \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0661\u0662\u0663\u0664",
    "\U0001f642\U0001f642 \U0001f469\u200d\U0001f467 emoji \U0001f1e9\U0001f1ea \u00bd \u216b \u00b2 "
    "\u2026\u2014\u201cquotes\u201d $100 +1 <=> ~|` ^",
    "   leading", "trailing   ", "\n\n\n", " ", "", "a\u00a0b\u3000c\u2028d", "x\t\ty  z\r\nq", "/path/to/ //\n",
    "CamelCaseHTTPServer fooBAR iPhone's WE'RE", " \n a \n\n b",
    "<|user|>Hello, it's<|end|>\n<|user|> a test</s>",
]  # fmt: skip
ACCENTED_TEXTS = [
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902 \u092a\u093e\u0920 \u0964 \u0e44\u0e17\u0e22\u0e20\u0e32"
    "\u0e29\u0e32 \u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd",
    "e\u0301a\u0308 decomposed \u0301x",
    "\u00dcBER \u00dcBER \u00dcBER \u00dcBER \u00dcBER \u00dcBER",
]
TEXTS = [*PLAIN_TEXTS, *ACCENTED_TEXTS]
_LEARNED = [*TEXTS] * 3


def in_bytes(pre_tokenizer: dict, ignores_merges: bool = False) -> dict:
    """A tokenizer.json of byte-level BPE."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    found = _learned({"pre_tokenizer": pre_tokenizer, "decoder": BYTE_LEVEL}, alphabet)
    found["model"]["ignore_merges"] = ignores_merges
    return found


def in_pieces(normalizer: dict | None, pre_tokenizer: dict | None) -> dict:
    """A tokenizer.json of SentencePiece's, with each pair that can make a piece, as transformers converts one."""
    cut = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": False}
    found = _learned({"pre_tokenizer": cut}, [])
    vocabulary, model = found["model"]["vocab"], found["model"]
    order = {}
    for first, second in model["merges"]:
        order.setdefault(first + second, len(order))
    plain = [token for token in vocabulary if token not in SPECIAL]
    numbers = {token: number for number, token in enumerate([*SPECIAL, *BYTES, *plain])}
    every = [[token[:cut], token[cut:]] for token in sorted({*order} - {*SPECIAL}, key=order.get)
             for cut in range(len(token) - 1, 0, -1)
             if token[:cut] in plain and token[cut:] in plain]  # fmt: skip
    model |= {"vocab": numbers, "merges": every, "byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
    back = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    decoder = {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    return {**found, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder}


def _learned(fields: dict, alphabet: list[str]) -> dict:
    empty = json.loads(Tokenizer(models.BPE()).to_str()) | fields
    tokenizer = Tokenizer.from_str(json.dumps(empty))
    trainer = trainers.BpeTrainer(
        vocab_size=600, min_frequency=2, initial_alphabet=alphabet, special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(_LEARNED, trainer)
    return json.loads(tokenizer.to_str())


def added(tokenizer: dict, **fields: object) -> dict:
    """With these fields in each added token."""
    return {**tokenizer, "added_tokens": [{**each, **fields} for each in tokenizer["added_tokens"]]}


def beginning(tokenizer: dict, token: str = "<s>", place: int = 0) -> dict:
    """With a token before each text, or (place 1) behind it."""
    rows = {}
    for name, letters in (("single", "A"), ("pair", "AB")):
        rows[name] = [{"Sequence": {"id": letter, "type_id": number}} for number, letter in enumerate(letters)]
        rows[name].insert(place * len(rows[name]), {"SpecialToken": {"id": token, "type_id": 0}})
    number = next(each["id"] for each in tokenizer["added_tokens"] if each["content"] == token)
    special = {token: {"id": token, "ids": [number], "tokens": [token]}}
    return {**tokenizer, "post_processor": {"type": "TemplateProcessing", **rows, "special_tokens": special}}


def write_folder(folder: Path, tokenizer: dict, model_type: str = "llama", template: str | None = None) -> Tokenizer:
    """With the config.json of a tiny model."""
    config = {"model_type": model_type, "vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 64,
              "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 16, "max_position_embeddings": 64,
              "rms_norm_eps": 1e-5, "query_pre_attn_scalar": 16}  # fmt: skip
    settings = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    files = {"config.json": config, "tokenizer.json": tokenizer, "tokenizer_config.json": settings}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    if template is not None:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def write_file(folder: Path, title: str = "tiny") -> Path:
    """Of the folder's tokenizer alone."""
    ModelWriter(folder, {}, "f32").write(folder / "written.gguf", [], title)
    return folder / "written.gguf"
