# SPDX-License-Identifier: Apache-2.0
"""Ids, offsets and texts of libmebp_text are those of `tokenizers` for the pipelines that each type of decoder was
published with. published_pipelines.json says where each was read and of which models or classes, and which of its parts
are `assumed` because that place does not show them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from support.tokenizer_forms import CLASSES, texts
from support.tokenizer_reference import compare, compare_every_character, lines

PUBLISHED = json.loads((Path(__file__).parents[1] / "support" / "published_pipelines.json").read_text())
PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def _train(pipeline: dict) -> str:
    """To 4,000 tokens, whose pieces it has cut itself."""
    byte_level = "ByteLevel" in json.dumps(pipeline["decoder"])
    model = {"type": "BPE", "vocab": {}, "merges": []}
    specials, alphabet = ["<|endoftext|>"], ByteLevel.alphabet()
    if not byte_level:
        model |= {"unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True}
        specials, alphabet = ["<unk>", "<s>", "</s>", *BYTES], []
    tokenizer = Tokenizer.from_str(
        json.dumps({"version": "1.0", "added_tokens": [], "model": model, **{part: pipeline[part] for part in PARTS}})
    )
    trainer = BpeTrainer(
        vocab_size=4000, special_tokens=specials, initial_alphabet=alphabet, max_token_length=16, show_progress=False
    )
    tokenizer.train_from_iterator(lines(), trainer)
    written = json.loads(tokenizer.to_str())
    # Published vocabularies have them as pieces of the model, which text does not name.
    written["added_tokens"] = [added for added in written["added_tokens"] if added["content"] not in BYTES]
    return json.dumps(written)


@pytest.fixture(scope="module")
def trained() -> Callable[[str], str]:
    made = {}

    def of(name: str) -> str:
        if name not in made:
            made[name] = _train(PUBLISHED["pipelines"][name])
        return made[name]

    return of


@pytest.mark.parametrize("name", PUBLISHED["pipelines"])
def test_ids_and_texts_are_those_of_tokenizers(name: str, trained: Callable[[str], str]) -> None:
    written = trained(name)
    assert Tokenizer.from_str(written).get_vocab_size() == 4000
    compare(written, texts(400))


@pytest.mark.parametrize("name", ["bloom", "cohere2", "deepseek_v2", "deepseek_v3", "falcon", "o200k", "tekken"])
def test_every_character(name: str, trained: Callable[[str], str]) -> None:
    compare_every_character(trained(name))


def test_every_type_that_is_exact_is_in_the_list_once() -> None:
    """A new one is to be looked for in public repositories, and named here with what was found."""
    models = json.loads((Path(__file__).parents[2] / "python" / "mebp" / "models.json").read_text())
    exact = {known["name"].split(",")[0] for known in models["types"] if known["outcome"] == "exact"}
    in_pipelines = {name for pipeline in PUBLISHED["pipelines"].values() for name in pipeline["types"]}
    in_classes = [name for names in PUBLISHED["classes"].values() for name in names]
    assert in_pipelines | set(in_classes) | set(PUBLISHED["not_found"]) == exact
    assert len(in_classes) == len(set(in_classes))
    assert not (in_pipelines | set(in_classes)) & set(PUBLISHED["not_found"])
    assert all(PUBLISHED["not_found"].values())


def test_classes_that_are_named_are_compared() -> None:
    assert set(PUBLISHED["classes"]) <= {f"{name}Tokenizer" for name in CLASSES}


def test_parts_are_as_they_were_read() -> None:
    """The place where they were read gives a digest of each."""
    for name, pipeline in PUBLISHED["pipelines"].items():
        assert pipeline["read"] in PUBLISHED["read"], name
        for part, digest in pipeline.get("digests", {}).items():
            canonical = json.dumps(pipeline[part], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            assert hashlib.sha256(canonical.encode()).hexdigest()[:12] == digest, (name, part)
