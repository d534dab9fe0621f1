# SPDX-License-Identifier: Apache-2.0
"""Odd GGUF files: models, and adapters of llama.cpp's form."""

import json
import math
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mebp.adapters.base import AskedBase
from mebp.adapters.conversion import convert_adapter
from mebp.errors import Error
from mebp.gguf.source import unpack_gguf
from mebp.tokenizer import Tokenizer
from support.gguf_files import SCALARS, TYPES, Array, File, Raw
from support.gguf_lines import lines
from support.gguf_models import HIDDEN, HYBRIDS, UNIFORM, WORDS, adapter, decoder, two_layers, with_factors
from support.mutants import hold

SEVERAL = (*HYBRIDS, *UNIFORM)
ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3", "phi3", "gpt2")
NUMBERS = [0, 1, 2, 3, 31, 32, 300, 65535, (1 << 31) - 1, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
           -1, -(1 << 31), -(1 << 63)]  # fmt: skip
REALS = [0.0, -1.0, 1e-45, 1e-5, 1.0, 1e30, 3e38, float("inf"), float("nan")]
TEXTS = ["", "model", "llama", "lfm2", "qwen35", "llama-bpe", "gpt2", "gemma3", "linear", "default", "qwen2",
         "no_vocab", "t5", "a\nb", "\x1b[31m", "\u202e", "\0", "a" * 5000, "{{ 'a' * 9 ** 9 }}", b"\xff\xfe",
         b"\xed\xa0\x80", "\u2028", "<s>", "\U0001f600", "../../x", "a b"]  # fmt: skip
EXTENTS = [0, 1, 2, 31, 32, 64, 256, 300, 1 << 31, 1 << 32, 1 << 62, 1 << 63, (1 << 64) - 1]
OFFSETS = [0, 1, 31, 32, 33, -1, 1 << 31, 1 << 62, 1 << 63, (1 << 64) - 32, 128]


def any_value(choose: random.Random, depth: int = 0) -> object:
    kind = choose.choice([*SCALARS, "string", "string", "array", "raw"])
    if kind == "string":
        return choose.choice(TEXTS)
    if kind == "raw":
        return Raw(choose.choice([
            struct.pack("<I", choose.choice([9, 13, 99, (1 << 32) - 1])),
            struct.pack("<IIQ", 9, choose.choice([0, 8, 9, 10, 99]), choose.choice([1, 1 << 20, 1 << 40, 1 << 63])),
            struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 3000,
            struct.pack("<IQ", 8, choose.choice([1 << 20, 1 << 40, (1 << 64) - 1])),
        ]))  # fmt: skip
    if kind == "array":
        inner = choose.choice([*SCALARS, "string", "array", "other"])
        if inner == "array":
            values = [any_array(choose) for _ in range(choose.randint(0, 3))]
        elif inner == "string":
            values = [choose.choice(TEXTS) for _ in range(choose.choice([0, 1, WORDS, 1000]))]
        else:
            code = SCALARS.get(inner, (0, "B"))[1]
            values = [number(choose, code) for _ in range(choose.choice([0, 1, 2, WORDS, 3000]))]
        return Array(inner, values, choose.choice([None, None, None, 0, 1, 1 << 33, (1 << 64) - 1]))
    return kind, number(choose, SCALARS[kind][1])


def any_array(choose: random.Random) -> Array:
    return Array("u32", [choose.choice([0, 1, 65535])] * choose.randint(0, 3))


def number(choose: random.Random, code: str) -> float | int:
    if code in "fd":
        return choose.choice(REALS)
    size = 8 * struct.calcsize(f"<{code}")
    found = choose.choice(NUMBERS) % (1 << size)
    return found - (1 << size) if code.islower() and found >= 1 << (size - 1) else found


def change_key(file: File, choose: random.Random) -> tuple[File, str]:
    name = choose.choice(file.keys)[0]
    return file.with_key(name, any_value(choose)), f"{name} of another value"


def change_number(file: File, choose: random.Random) -> tuple[File, str]:
    numbers = [each for each in file.keys if isinstance(each[1], tuple)]
    if not numbers:
        return change_key(file, choose)
    name, value = choose.choice(numbers)
    kind = choose.choice([value[0], "u64", "i64", "f64"])
    value = kind, number(choose, SCALARS[kind][1])
    return file.with_key(name, value), f"{name} is {value}"


def change_text(file: File, choose: random.Random) -> tuple[File, str]:
    names = [name for name, value in file.keys if isinstance(value, str)]
    if not names:
        return change_key(file, choose)
    name = choose.choice(names)
    text = choose.choice(TEXTS)
    return file.with_key(name, text), f"{name} is {text[:20]!r}"


def remove_key(file: File, choose: random.Random) -> tuple[File, str]:
    name = choose.choice(file.keys)[0]
    return file.without(name), f"no {name}"


def repeat_key(file: File, choose: random.Random) -> tuple[File, str]:
    name = choose.choice(file.keys)[0]
    return replace(file, keys=[*file.keys, (name, any_value(choose))]), f"{name} twice"


def add_key(file: File, choose: random.Random) -> tuple[File, str]:
    name = choose.choice([*TEXTS, "tokenizer.ggml.scores", "split.count", "tokenizer.huggingface.json"])
    return replace(file, keys=[*file.keys, (name, any_value(choose))]), f"one more key, {name[:20]!r}"


def change_list(file: File, choose: random.Random) -> tuple[File, str]:
    lists = [(name, value) for name, value in file.keys if isinstance(value, Array) and value.values]
    if not lists:
        return change_key(file, choose)
    name, value = choose.choice(lists)
    values = list(value.values)
    for _ in range(choose.randint(1, 4)):
        at = choose.randrange(len(values))
        if value.kind == "string":
            values[at] = choose.choice([*TEXTS, values[0], "t0", "t1 t0", " ", "t5 zz", "a b c"])
        elif value.kind in SCALARS:
            values[at] = number(choose, SCALARS[value.kind][1])
    values = choose.choice([values, values, values[:-1], values * 2, values[:1]])
    return file.with_key(name, Array(value.kind, values)), f"{name} has another list"


def change_tensor(file: File, choose: random.Random) -> tuple[File, str]:
    if not file.tensors:
        return change_key(file, choose)
    at = choose.randrange(len(file.tensors))
    old = file.tensors[at]
    shape = list(old.shape)
    if shape:
        shape[choose.randrange(len(shape))] = choose.choice(EXTENTS)
    names = [*TEXTS, file.tensors[0].name, "blk.0.attn_q.bias", "blk.00.ffn_up.weight", "blk.9999999999.attn_q.weight",
             "blk.\u0663.attn_q.weight", f"blk.{'1' * 5000}.attn_q.weight.lora_a", "output.weight",
             "rope_freqs.weight", "blk.1.ffn_up.weight", "token_embd.weight.lora_a"]  # fmt: skip
    values = np.frombuffer(choose.randbytes(1024), np.float32) if choose.random() < 0.3 else np.full(256, np.nan, "f4")
    new = choose.choice([
        replace(old, name=choose.choice(names)),
        replace(old, shape=tuple(shape)),
        replace(old, shape=tuple(choose.choice(EXTENTS) for _ in range(choose.choice([0, 1, 2, 3, 4, 5, 100])))),
        replace(old, kind=choose.choice([*TYPES, 4, 24, 39, 99, (1 << 32) - 1])),
        replace(old, offset=choose.choice(OFFSETS)),
        replace(old, content=values.tobytes() * (min(math.prod(old.shape), 4096) // 256 + 1)),
    ])  # fmt: skip
    if choose.random() < 0.1:
        return replace(file, tensors=file.tensors[:at] + file.tensors[at + 1 :]), f"no tensor {old.name!r}"
    tensors = [*file.tensors[:at], new, *file.tensors[at + 1 :]]
    return replace(file, tensors=tensors), f"tensor {old.name!r} is {replace(new, content=None)}"


def change_head(file: File, choose: random.Random) -> tuple[File, str]:
    field, values = choose.choice([
        ("magic", [b"GGML", b"FUGG", b"\0\0\0\0"]),
        ("version", [0, 1, 2, 4, (1 << 32) - 1]),
        ("key_count", [0, 1, len(file.keys) + 1, 1 << 20, 1 << 63, (1 << 64) - 1]),
        ("tensor_count", [0, 1, len(file.tensors) + 1, 1 << 20, 1 << 63, (1 << 64) - 1]),
        ("alignment", [1, 8, 64, 4096]),
    ])  # fmt: skip
    value = choose.choice(values)
    return replace(file, **{field: value}), f"{field} is {value}"


CHANGES = [change_key] * 4 + [change_number] * 4 + [change_text, remove_key, remove_key, repeat_key, add_key]
CHANGES += [change_list, change_list, change_tensor, change_tensor, change_tensor, change_head]


def mutate(file: File, choose: random.Random) -> tuple[bytes, str]:
    said = []
    for _ in range(choose.choice([1, 1, 1, 2, 3])):
        file, what = choose.choice(CHANGES)(file, choose)
        said.append(what)
    content = file.bytes()
    if choose.random() < 0.1:
        at = choose.randrange(len(content))
        changed = choose.choice([content[:at], content[:at] + choose.randbytes(8) + content[at + 8 :]])
        return changed, f"{', '.join(said)}, another byte {at}"
    return content, ", ".join(said)


def writer(file: Path, seeds: list[File]) -> Callable[[random.Random], str]:
    def make(choose: random.Random) -> str:
        content, what = mutate(choose.choice(seeds), choose)
        file.write_bytes(content)
        return what

    return make


@pytest.fixture
def quick_transformers(monkeypatch):
    """Its own reader of GGUF takes a second for a file; one of many is read by it."""
    from transformers import AutoTokenizer

    real = AutoTokenizer.from_pretrained

    def refuse(*given, **named):
        if random.Random(str(given)).random() < 0.01:
            return real(*given, **named)
        raise ValueError("not of a kind that is tried here")

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", refuse)


def model(name: str) -> File:
    return two_layers(name) if name in SEVERAL else decoder(name)


@pytest.mark.parametrize("name", (*ARCHITECTURES, *SEVERAL))
def test_a_key_that_lacks(tmp_path, quick_transformers, name):
    """Each of a model's keys in turn."""
    file, whole = tmp_path / "odd.gguf", model(name)
    for key, _ in whole.keys:
        file.write_bytes(whole.without(key).bytes())
        try:
            read_model(file, tmp_path / "unpacked", random.Random(0))
        except Error as error:
            assert "odd.gguf" in str(error) and "; " in str(error)


def test_models(tmp_path, quick_transformers):
    file, target = tmp_path / "odd.gguf", tmp_path / "unpacked"
    seeds = [with_factors(), *map(model, (*ARCHITECTURES, *SEVERAL))]
    seeds += [decoder("llama").without("tokenizer.ggml.model"), lines()]
    for seed in seeds[1:]:
        file.write_bytes(seed.bytes())
        read_model(file, target, random.Random(0))
    hold(writer(file, seeds), lambda choose: read_model(file, target, choose), ["odd.gguf", "unpacked"])


def read_model(file: Path, target: Path, choose: random.Random) -> None:
    shutil.rmtree(target, ignore_errors=True)
    whole = choose.random() < 0.5
    unpacked = unpack_gguf(file, target, with_weights=whole)
    if (target / "tokenizer.json").exists():
        Tokenizer.of_model(target)
    assert all(line.isprintable() for line in unpacked.kept)
    assert AskedBase(file).config


def test_adapters(tmp_path, monkeypatch):
    monkeypatch.setattr("mebp.files.sync", lambda path: None)
    file, out = tmp_path / "odd.gguf", tmp_path / "out"
    base = tmp_path / "base"
    base.mkdir()
    # Of each model that is tried: heads that are turned in pairs, and value heads of key heads.
    sizes = {"num_attention_heads": 2, "num_key_value_heads": 2, "hidden_size": HIDDEN, "vocab_size": WORDS,
             "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 4,
             "linear_value_head_dim": 4, "linear_conv_kernel_dim": 4, "num_experts": 2,
             "moe_intermediate_size": 8}  # fmt: skip
    (base / "config.json").write_text(json.dumps({"model_type": "llama", **sizes}))
    joined = (("attn_qkv", 40, HIDDEN), ("attn_gate", 24, HIDDEN))
    seeds = [adapter(), adapter("qwen35", (*joined, ("ssm_out", HIDDEN, 24))), adapter("qwen3next", joined)]

    def read(choose: random.Random) -> None:
        shutil.rmtree(out, ignore_errors=True)
        try:
            convert_adapter(file, out, choose.choice(["peft", "mlx"]), base)
        except Error:
            assert not out.exists()
            raise

    for seed in seeds:
        file.write_bytes(seed.bytes())
        read(random.Random(0))
    hold(writer(file, seeds), read, ["odd.gguf"])
