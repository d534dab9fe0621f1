# SPDX-License-Identifier: Apache-2.0
"""Files of models beside those of llama.cpp's own converter, where MEBP_LLAMA_CONVERTER names it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import PreTrainedModel

from mebp.exporter.packaged import unpack
from mebp.gguf.container import read_container
from mebp.gguf.model import ModelWriter
from mebp.gguf.source import unpack_gguf
from support import gguf_families, models
from support.gguf_gemma4 import KINDS
from support.gguf_gemma4 import build as build_gemma4
from support.gguf_lines import write_tokenizer

DELTA = {"linear_value_head_dim": 12, "full_attention_interval": 2, "head_dim": 64, "partial_rotary_factor": 1.0}
FAMILIES: dict[str, dict] = {"lfm2": {}, "lfm2_moe": {}, "qwen3_5_text": DELTA, "qwen3_5_moe_text": DELTA,
                             "qwen3_next": DELTA, **{kind: {} for kind in KINDS}}  # fmt: skip
# But for Gemma and Gemma 2, whose vocabulary the converter reads from SentencePiece's own file alone.
OTHERS = [family for family in gguf_families.FAMILIES if "gemma" not in family]
LEAST_BIT = 2.0**-22  # of a rate, whose exp two libraries may round otherwise
# Only one of both says these; llama.cpp takes the same where they are missing, or has no use for them.
EITHER = (
    "general.",
    "tokenizer.",
    ".vocab_size",
    ".rope.dimension_count",
    ".feed_forward_length",
    "granite.attention.key_length",
    "granite.attention.value_length",
)


@pytest.fixture(scope="module")
def converter() -> Path:
    if "MEBP_LLAMA_CONVERTER" not in os.environ:
        pytest.skip("MEBP_LLAMA_CONVERTER names no convert_hf_to_gguf.py of llama.cpp")
    return Path(os.environ["MEBP_LLAMA_CONVERTER"]).absolute()


def build(family: str) -> PreTrainedModel:
    if family in KINDS:
        return build_gemma4(family)
    if family in OTHERS:
        return gguf_families.build(family, vocab_size=49152)
    return models.build(family, vocab_size=49152, **FAMILIES[family])


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_it_writes_the_same(tmp_path, family, converter):
    folder, theirs, ours = tmp_path / "model", tmp_path / "theirs.gguf", tmp_path / "ours.gguf"
    is_gemma = family in KINDS
    model = build(family)
    models.save(model, folder)
    if is_gemma:
        write_tokenizer(folder, model.config.vocab_size)
    for file in () if is_gemma else unpack("packaged:smollm2").iterdir():
        if file.name.startswith(("tokenizer", "chat_template")):
            shutil.copy(file, folder)
    # The tokenizer as it stands: by a model's type transformers would take another for some.
    config = (folder / "config.json").read_text()
    untyped = {name: value for name, value in json.loads(config).items() if name != "model_type"}
    if is_gemma:  # as published files have it
        each = next(iter(untyped.pop("per_layer_config").values()))
        untyped |= {"global_head_dim": each["head_dim"]}
        untyped |= {"num_global_key_value_heads": each.get("num_key_value_heads")}
    (folder / "config.json").write_text(json.dumps(untyped))
    options = ["--no-mtp"] if "qwen" in family and family in FAMILIES else []
    # Beside it lies llama.cpp's own gguf, which nothing here should see.
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, converter, folder, "--outfile", theirs, "--outtype", "f32", *options], env=alone,
                   check=True, capture_output=True)  # fmt: skip
    (folder / "config.json").write_text(config)
    tied = model.config.tie_word_embeddings
    tensors = {name: values.numpy() for name, values in model.state_dict().items()
               if not (tied and name == "lm_head.weight")}  # fmt: skip
    writer = ModelWriter(folder, {name: values.shape for name, values in tensors.items()}, "f32")
    writer.write(ours, tensors.values(), "tiny")
    one, other = read_container(theirs), read_container(ours)
    expected, found = ({each.name: file.values(each) for each in file.tensors} for file in (one, other))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        most = LEAST_BIT * np.abs(values) if name.endswith("ssm_a") else 0
        assert found[name].shape == values.shape and (np.abs(found[name] - values) <= most).all(), name
    for key in one.metadata.keys() | other.metadata.keys():
        if not key.startswith(EITHER[:2]) and not key.endswith(EITHER[2:]):
            assert one.metadata.get(key) == other.metadata.get(key), key
    for key in ("model", "tokens", "merges"):
        assert one.metadata[f"tokenizer.ggml.{key}"] == other.metadata[f"tokenizer.ggml.{key}"], key
    unpack_gguf(theirs, tmp_path / "unpacked")
    back = load_file(tmp_path / "unpacked" / "model.safetensors")
    assert back.keys() == tensors.keys()
    for name, values in tensors.items():
        assert np.abs(back[name] - values).max() < 1e-6, name  # 1 was added to norms in f32
