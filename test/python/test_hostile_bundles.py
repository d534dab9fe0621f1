# SPDX-License-Identifier: Apache-2.0
"""What Python itself reads of a bundle that somebody else made: each refusal is one line."""

import json
import os
from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.inspect import describe, storage_options
from mebp.model_folder import copy_files, model_config
from mebp.tokenizer import Tokenizer
from mebp.training import state
from support.opened import Opened
from support.textmodel import CHATML, make_tokenizer


@pytest.mark.parametrize("manifest", [b"", b"[" * 200_000, b'{"name": "\xff"}', b"[]", b"null"])
def test_manifests_that_are_no_objects(manifest: bytes) -> None:
    with pytest.raises(Error) as caught:
        describe(Opened(manifest))
    message = str(caught.value)
    assert message.startswith("manifest.json") and message.endswith("the bundle is damaged, compile it again")


STORED = {"weights": "int4", "embedding_weights": "int8", "precision": "bf16", "weights_for": []}


@pytest.mark.parametrize(
    "options",
    [None, [], {}, STORED | {"precision": 3}, STORED | {"weights_for": None}, STORED | {"weights_for": ["a"]}],
)
def test_manifests_without_a_storage(options: object) -> None:
    with pytest.raises(Error) as caught:
        storage_options(describe(Opened(json.dumps({"options": options}).encode())))
    assert str(caught.value) == (
        "manifest.json: does not say how the weights are stored; the bundle is damaged, compile it again"
    )


@pytest.mark.parametrize("end", ["2", [[2]], {"a": 2}, 1.5, True, [2, "2"]])
def test_ends_of_sequences_that_are_no_numbers(end: object, tmp_path: Path) -> None:
    make_tokenizer(tmp_path / "tokenizer", CHATML)
    file = tmp_path / "tokenizer" / "generation_config.json"
    file.write_text(json.dumps({"eos_token_id": end}))
    with pytest.raises(Error) as caught:
        Tokenizer(tmp_path)
    assert str(caught.value) == f"{file}: eos_token_id is not a number or a list of them; correct it"


@pytest.mark.parametrize("stored", [b"[]", b"3", b"null", b"{", b"[" * 200_000, b"\xff"])
def test_states_of_another_program(stored: bytes, tmp_path: Path) -> None:
    class Session:
        def load_state(self, folder: Path) -> bytes:
            return stored

    with pytest.raises(Error) as caught:
        state.load(Session(), tmp_path, {"seed": 0})
    assert str(caught.value) == f"{tmp_path}: was not saved by mebp train; choose another --state"


def test_merge_copies_files_and_follows_no_link(tmp_path: Path) -> None:
    source, target = tmp_path / "tokenizer", tmp_path / "merged"
    source.mkdir(), target.mkdir()
    (tmp_path / "secret").write_text("of whoever merges")
    (source / "tokenizer.json").write_text("{}")
    (source / "link.json").symlink_to(tmp_path / "secret")
    (source / "folder").symlink_to(tmp_path)
    os.mkfifo(source / "pipe")
    copy_files(source, target)
    assert [file.name for file in target.iterdir()] == ["tokenizer.json"]


def test_what_is_merged_chooses_no_code(tmp_path: Path) -> None:
    chosen = {
        "auto_map": {"AutoModelForCausalLM": "somebody/model--evil.Model"},
        "_attn_implementation": "somebody/kernel",
    }
    kept = {"model_type": "llama", "layers": [{"size": 1}]}
    quantised = {"torch_dtype": "float16", "quantization_config": {"quant_method": "mxfp4"}}
    (tmp_path / "config.json").write_text(json.dumps({**chosen, **kept, **quantised, "part": chosen}))
    assert model_config(tmp_path / "config.json", "bf16") == {**kept, "part": {}, "dtype": "bfloat16"}
