# SPDX-License-Identifier: Apache-2.0
"""Which key of a config.json is to blame, and names that older files have."""

import json
from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.exporter.skeleton import build_skeleton
from mebp.exporter.source import resolve

LLAMA = {"model_type": "llama", "vocab_size": 16, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
         "num_attention_heads": 2, "num_key_value_heads": 1}  # fmt: skip
PYTHONS_WORDS = ("object", "attribute", "NoneType", "<class", "Error", "operand", "division", "invalid literal",
                 "Validation", "got ")  # fmt: skip


def made(folder: Path, **fields: object) -> object:
    (folder / "config.json").write_text(json.dumps({**LLAMA, **fields}))
    return build_skeleton(resolve(folder, folder, shape_only=True).config)


def refusal(folder: Path, **fields: object) -> str:
    with pytest.raises(Error) as caught:
        made(folder, **fields)
    return str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("initializer_range", None, '"initializer_range" is null, but transformers takes a number there'),
        ("rms_norm_eps", "1e-05", '"rms_norm_eps" is "1e-05", but transformers takes a number there'),
        ("hidden_size", 8.0, '"hidden_size" is 8.0, but transformers takes a whole number there'),
        ("attention_bias", None, '"attention_bias" is null, but transformers takes true or false there'),
        ("rope_scaling", 3, '"rope_scaling" is 3, but transformers takes an object or null there'),
        ("pad_token_id", "a", '"pad_token_id" is "a", but transformers takes a whole number or null there'),
        (
            "eos_token_id",
            [1, None],
            '"eos_token_id" is [1, null], but transformers takes a whole number, a list or null',
        ),
        ("id2label", {"a": "b"}, 'transformers cannot read it because of "id2label" ({"a": "b"})'),
        ("layer_types", 3, 'transformers cannot read it because of "layer_types" (3)'),
        ("torch_dtype", "float17", 'transformers cannot read it because of "torch_dtype" ("float17")'),
        ("num_attention_heads", 0, 'transformers cannot read it because of "num_attention_heads" (0)'),
        ("model_type", None, '"model_type" is null; set it to the model\'s type, such as "llama"'),
    ],
)
def test_a_key_that_cannot_be_read_is_named(field: str, value: object, words: str, tmp_path: Path) -> None:
    line = refusal(tmp_path, **{field: value})
    assert line.startswith(f"{tmp_path / 'config.json'}: {words}")
    assert not any(word in line.replace("an object", "") for word in PYTHONS_WORDS)


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("hidden_act", "bogus", "hidden_act"),
        ("rope_theta", "1e4", "rope_parameters"),
        ("vocab_size", -1, "vocab_size"),
        ("head_dim", 0, "head_dim"),
        ("intermediate_size", -1, "intermediate_size"),
    ],
)
def test_a_key_that_makes_no_model_is_named(field: str, value: object, named: str, tmp_path: Path) -> None:
    line = refusal(tmp_path, **{field: value})
    assert line.startswith(f'llama: transformers cannot build the model because of "{named}" (')
    assert not any(word in line for word in PYTHONS_WORDS)


def test_what_libraries_say_on_purpose_stands_behind_the_key(tmp_path: Path) -> None:
    line = refusal(tmp_path, hidden_size=7)
    # An older transformers takes another number of heads, too.
    assert line.replace(' or "num_attention_heads" (2)', "") == (
        f'{tmp_path / "config.json"}: transformers cannot read it because of "hidden_size" (7): '
        "The hidden size (7) is not a multiple of the number of attention heads (2); correct it"
    )


def test_what_torch_refuses_names_the_key(tmp_path: Path) -> None:
    assert refusal(tmp_path, model_type="gpt2", resid_pdrop=-1.0) == (
        'gpt2: transformers cannot build the model because of "resid_pdrop" (-1.0): dropout probability has to be '
        "between 0 and 1, but got -1.0; correct it"
    )


def test_a_config_without_a_type(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(Error) as caught:
        resolve(tmp_path, tmp_path, shape_only=True)
    wanted = 'set it to the model\'s type, such as "llama"'
    assert str(caught.value) == f'{tmp_path / "config.json"}: "model_type" is missing; {wanted}'


def test_a_config_that_is_nested_deep(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "a": ' + "[" * 900 + "]" * 900 + "}")
    with pytest.raises(Error) as caught:
        resolve(tmp_path, tmp_path, shape_only=True)
    assert str(caught.value) == f"{tmp_path / 'config.json'}: is nested too deeply; download it again"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("llama", "LLaMAForCausalLM"),
        ("mpt", "MPTForCausalLM"),
        ("phimoe", "PhiMoEForCausalLM"),
        ("ernie4_5", "Ernie4_5_ForCausalLM"),
        ("falcon", "RWForCausalLM"),
        ("stablelm", "StableLMEpochForCausalLM"),
        ("bloom", "BloomModel"),
    ],
)
def test_older_names_of_classes_are_read(kind: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, "architectures": [name]}))
    assert resolve(tmp_path, tmp_path, shape_only=True).config.model_type == kind
