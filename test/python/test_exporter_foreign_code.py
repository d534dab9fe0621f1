# SPDX-License-Identifier: Apache-2.0
"""A config.json says what shape a model has, and nothing about whose code computes it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
import transformers
from transformers import PreTrainedConfig, modeling_utils

import mebp
from mebp.exporter.foreign_code import without_code
from mebp.exporter.skeleton import build_skeleton
from mebp.exporter.source import resolve
from mebp.verification.model import build_model
from support.network import without_network

KERNEL = "somebody/kernel"
LLAMA = {"model_type": "llama", "vocab_size": 16, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
         "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32}  # fmt: skip
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 1}
BERT = {"model_type": "bert", "vocab_size": 16, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "architectures": ["BertForMaskedLM"]}  # fmt: skip
KEYS = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal", "experts_implementation",
        "_experts_implementation", "_experts_implementation_internal")  # fmt: skip


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Whatever transformers asks the hub for fails the test."""
    asked: list[str] = []

    def fail(name: str, *_: object, **__: object) -> None:
        asked.append(name)
        raise ImportError(name)

    for name in ("lazy_import_flash_attention", "lazy_import_paged_flash_attention"):
        monkeypatch.setattr(modeling_utils, name, fail)
    for module in ("transformers.integrations.hub_kernels.get_kernel", "huggingface_hub.HfApi.repo_exists"):
        monkeypatch.setattr(module, fail)
    tried = without_network(monkeypatch)
    yield asked
    assert asked == tried == []


def read(fields: dict, folder: Path, task: str = "causal") -> PreTrainedConfig:
    (folder / "config.json").write_text(json.dumps(fields))
    return resolve(folder, folder, shape_only=True, task=task).config


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", [KERNEL, "flash_attention_2", "paged|flash_attention_3", {"": KERNEL}, "nonsense", 3])
def test_a_kernel_is_not_chosen(key: str, value: object, tmp_path: Path) -> None:
    fields = MIXTRAL if "experts" in key else LLAMA
    config = read({**fields, key: value}, tmp_path)
    assert config._attn_implementation is None and config._experts_implementation is None
    build_model(config)
    build_skeleton(read({**fields, key: value}, tmp_path))


def test_a_kernel_is_not_chosen_for_an_encoder(tmp_path: Path) -> None:
    for key in KEYS:
        build_model(read({**BERT, key: KERNEL}, tmp_path, "fill-mask"), "fill-mask")
        build_skeleton(read({**BERT, key: KERNEL}, tmp_path, "fill-mask"), "fill-mask")


@pytest.mark.parametrize(
    "trick",
    [
        {"attribute_map": {"other_name": "_attn_implementation"}, "other_name": KERNEL},
        {"__dict__": {"_attn_implementation_internal": KERNEL}},
        {"__class__": {"_attn_implementation": KERNEL}},
        {"sub_configs": {"part": {}}, "part": {"_attn_implementation": KERNEL}},
        {"per_layer_config": {"0": {"_attn_implementation": KERNEL}}},
        {"configuration_files": ["config.4.0.0.json"]},
        {"auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": f"{KERNEL}--evil.Model"}},
    ],
)
def test_no_other_way_leads_to_one(trick: dict, tmp_path: Path) -> None:
    (tmp_path / "config.4.0.0.json").write_text(json.dumps({**LLAMA, "_attn_implementation": KERNEL}))
    (tmp_path / "evil.py").write_text("raise SystemExit('this ran')")
    config = read({**LLAMA, **trick}, tmp_path)
    assert config._attn_implementation is None and type(config) is transformers.LlamaConfig
    build_model(config)


def test_a_model_s_parts_choose_none(tmp_path: Path) -> None:
    """Nor of models that are refused here."""
    for family in ("qwen2_vl", "llava", "gemma3"):
        parts = {
            "text_config": {"_attn_implementation": KERNEL},
            "vision_config": {"experts_implementation": KERNEL, "attn_implementation": KERNEL},
        }
        if family == "gemma3":  # whose text is exported
            assert read({"model_type": family, **parts}, tmp_path)._attn_implementation is None
        else:
            with pytest.raises(mebp.Error):
                read({"model_type": family, **parts}, tmp_path)
        kept, left_out = without_code({"model_type": family, **parts})
        config = transformers.AutoConfig.for_model(**kept)
        assert config.text_config._attn_implementation is config.vision_config._attn_implementation is None
        assert len(left_out) == 3


def test_no_attribute_of_a_config_chooses_one(tmp_path: Path) -> None:
    """Whatever key of transformers' own it is that a file sets: it is refused in one line, or changes nothing of it."""
    model = transformers.LlamaConfig(**LLAMA)
    held = 0
    for name in sorted({*dir(model), *vars(model)} - {"model_type"}):
        for value in (KERNEL, {"_attn_implementation": KERNEL, "": KERNEL}):
            try:
                config = read({**LLAMA, name: value}, tmp_path)
            except mebp.Error as error:
                assert str(error).startswith(f"{tmp_path / 'config.json'}: ")
            else:
                assert config._attn_implementation is None and config._experts_implementation is None, name
                held += 1
    assert held > 40


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "detr", "backbone": KERNEL},
        {"model_type": "detr", "use_timm_backbone": False},
        {"model_type": "upernet", "backbone_config": None, "backbone": KERNEL},
        {"model_type": "grounding-dino", "backbone": KERNEL, "use_timm_backbone": False},
    ],
)
def test_no_part_is_fetched(fields: dict, tmp_path: Path) -> None:
    with pytest.raises(mebp.Error):
        read(fields, tmp_path)


def test_what_a_class_fetches_by_itself_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of which this project knows nothing could."""
    seen = []
    original = transformers.LlamaConfig.__post_init__

    def post_init(self: PreTrainedConfig, **given: object) -> None:
        seen.append(huggingface_hub.is_offline_mode())
        original(self, **given)

    monkeypatch.setattr(transformers.LlamaConfig, "__post_init__", post_init)
    read(LLAMA, tmp_path)
    assert seen and all(seen) and not huggingface_hub.is_offline_mode()


def test_what_is_left_out_is_named_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "config.json"
    read(LLAMA, tmp_path)
    assert capsys.readouterr().err == ""
    read({**LLAMA, "_attn_implementation": KERNEL}, tmp_path)
    assert capsys.readouterr().err == (
        f"note: {file}: _attn_implementation is ignored, for it chooses code or what is fetched, and not the model's "
        "shape\n"
    )
    odd = {f"\x1b[2J{number}": {"auto_map": {}} for number in range(9)}
    read({**LLAMA, "auto_map": {}, "text": [{"use_kernels": True}], **odd}, tmp_path)
    line = capsys.readouterr().err
    assert line.startswith(f"note: {file}: auto_map, text.use_kernels, \\x1b[2J0.auto_map, \\x1b[2J1.auto_map, ")
    assert line.endswith(
        ".auto_map, 3 more are ignored, for they choose code or what is fetched, and not the model's shape\n"
    )
    assert line.count("\n") == 1 and "\x1b" not in line


def test_all_else_stays() -> None:
    fields = {"a": [1, {"b": None}], "label2id": {"backbone": 0, "auto_map": 1}, "x": {"__float__": "Infinity"}}
    assert without_code(fields) == (fields, [])
    kept, left_out = without_code({**fields, "auto_map": {}, "a": [{"backbone": "b", "c": 1}]})
    assert kept == {**fields, "a": [{"c": 1}]} and sorted(left_out) == ["a.backbone", "auto_map"]


@pytest.mark.parametrize("odd", ["LlamaForCausalLM", {"": 3}, [3], 3, True])
def test_names_of_classes_that_are_none(odd: object, tmp_path: Path) -> None:
    with pytest.raises(mebp.Error) as caught:
        read({**LLAMA, "architectures": odd}, tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'config.json'}: ")


def test_settings_within_settings_without_end(tmp_path: Path) -> None:
    text = '{"a": ' * 900 + "{}" + "}" * 900
    (tmp_path / "config.json").write_text(f'{{"model_type": "llama", "deep": {text}}}')
    with pytest.raises(mebp.Error, match=re.escape(f"{tmp_path / 'config.json'}: ")):
        resolve(tmp_path, tmp_path, shape_only=True)
