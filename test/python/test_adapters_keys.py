# SPDX-License-Identifier: Apache-2.0
"""The names of an adapter's tensors as people's adapters have them, and the keys of llama.cpp's form."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mebp.adapters.conversion import convert_adapter
from mebp.adapters.keys import loadable
from mebp.errors import Error
from support.judges import judge

A, B = np.full((2, 8), 0.5, np.float32), np.full((16, 2), 0.25, np.float32)
LAYER = "model.layers.0.mlp.up_proj"
KEYS = [f"base_model.model.{LAYER}.lora_{factor}.weight" for factor in "AB"]


def make(folder: Path, names: list[str], values: tuple = (A, B)) -> Path:
    folder.mkdir()
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "base_model_name_or_path": "base"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    save_file(dict(zip(names, values, strict=True)), folder / "adapter_model.safetensors", {"format": "pt"})
    return folder


@pytest.mark.parametrize("adapter", ["default", "my-adapter"])
def test_the_adapter_s_name_in_the_keys_is_read(tmp_path, adapter):
    folder = make(tmp_path / "named", [key.replace(".weight", f".{adapter}.weight") for key in KEYS])
    convert_adapter(folder, tmp_path / "out", "mlx")
    found = load_file(tmp_path / "out" / "adapters.safetensors")
    assert np.array_equal(found[f"{LAYER}.lora_a"], A.T) and np.array_equal(found[f"{LAYER}.lora_b"], B.T)
    convert_adapter(folder, tmp_path / "peft", "peft")
    assert sorted(load_file(tmp_path / "peft" / "adapter_model.safetensors")) == KEYS
    with loadable(folder, KEYS) as place:
        found = load_file(place / "adapter_model.safetensors")
        assert json.loads((place / "adapter_config.json").read_text())["lora_alpha"] == 4
        assert np.array_equal(found[KEYS[0]], A) and np.array_equal(found[KEYS[1]], B)
    assert not place.exists()


def test_a_refusal_of_the_copy_names_the_folder(tmp_path):
    folder = make(tmp_path / "named", [key.replace(".weight", ".default.weight") for key in KEYS])
    with pytest.raises(Error) as caught, loadable(folder, KEYS) as place:
        raise Error(f"{place}/adapter_config.json: r is 2")
    assert str(caught.value) == f"{folder}/adapter_config.json: r is 2"


def test_a_usual_adapter_is_not_copied(tmp_path):
    folder = make(tmp_path / "usual", KEYS)
    with loadable(folder, KEYS) as place:
        assert place == folder


def test_two_adapters_are_refused(tmp_path):
    named = [key.replace(".weight", f".{name}.weight") for name in ("one", "two") for key in KEYS]
    folder = make(tmp_path / "two", named, (A, B, A, B))
    with pytest.raises(Error) as caught:
        convert_adapter(folder, tmp_path / "out", "mlx")
    assert str(caught.value) == (
        f"{folder}/adapter_model.safetensors: has '{named[0]}' and '{named[2]}', which are of two adapters; save one "
        "of them alone"
    )


ODD = {
    "twice": "base_model.model.base_model.model.",
    "compiled": "base_model.model._orig_mod.",
    "compiled outside": "_orig_mod.base_model.model.",
    "parallel": "module.base_model.model.",
    "none": "",
}
PREFIXES = {
    **{title: f"{prefix}model." for title, prefix in ODD.items()},
    "bare": "base_model.model.",
    "bare without a prefix": "",
}


@pytest.mark.parametrize("named", ["", ".default"])
@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_an_odd_prefix_is_named_with_the_right_one(tmp_path, prefix, named):
    odd = [key.replace("base_model.model.model.", prefix).replace(".weight", f"{named}.weight") for key in KEYS]
    folder = make(tmp_path / "odd", odd)

    def line(read) -> str:
        with pytest.raises(Error) as caught:
            read()
        return str(caught.value).removeprefix(f"{folder}/adapter_model.safetensors: ")

    should = f"which should be '{KEYS[0]}'; rename its tensors so, or save the adapter from the model that PEFT wraps"
    assert line(lambda: convert_adapter(folder, tmp_path / "out", "mlx")) == f"has '{odd[0]}', {should}"
    assert not (tmp_path / "out").exists()
    assert line(lambda: loadable(folder, KEYS).__enter__()) == f"has '{odd[0]}', {should}"


def test_gpt_2_and_encoders_without_their_prefix(tmp_path):
    for module, right in (("h.0.attn.c_attn", "transformer."), ("encoder.layer.0.output.dense", "bert.")):
        names = [f"base_model.model.{module}.lora_{factor}.weight" for factor in "AB"]
        whole = [f"base_model.model.{right}{module}.lora_{factor}.weight" for factor in "AB"]
        folder = make(tmp_path / right, names)
        with pytest.raises(Error, match=f"has '{names[0]}', which should be '{whole[0]}'"):
            loadable(folder, whole).__enter__()


def test_a_module_that_the_bundle_lacks_is_not_called_odd(tmp_path):
    """The runtime says that it is not trained, and how to compile."""
    folder = make(tmp_path / "more", [key.replace("up_proj", "gate_proj") for key in KEYS])
    with loadable(folder, KEYS) as place:
        assert place == folder


class TestGguf:
    def _written(self, folder: Path, **keys: object) -> Path:
        gguf = judge("gguf")
        writer = gguf.GGUFWriter(folder / "a.gguf", "llama")
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", 4.0)
        for key, value in keys.items():
            (writer.add_array if isinstance(value, list) else writer.add_string)(key, value)
        writer.add_tensor("blk.0.ffn_up.weight.lora_a", A)
        writer.add_tensor("blk.0.ffn_up.weight.lora_b", B)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return folder / "a.gguf"

    @pytest.mark.parametrize("key", ["adapter.alora.invocation_tokens", "adapter.lora.of_tomorrow"])
    def test_keys_that_change_what_is_computed_are_refused(self, tmp_path, key):
        file = self._written(tmp_path, **{key: [7, 8, 9]})
        with pytest.raises(Error) as caught:
            convert_adapter(file, tmp_path / "out", "peft")
        assert str(caught.value) == f"{file}: {key} is not supported; train the adapter without it"
        assert not (tmp_path / "out").exists()

    def test_keys_that_change_nothing_are_read(self, tmp_path):
        texts = {"adapter.lora.task_name": "sums", "adapter.lora.prompt_prefix": "Add: "}
        convert_adapter(self._written(tmp_path, **texts), tmp_path / "out", "peft")
        assert sorted(load_file(tmp_path / "out" / "adapter_model.safetensors")) == KEYS

    def test_every_key_of_the_gguf_package_is_known(self):
        gguf = judge("gguf")
        from mebp.adapters.gguf_file import _KEYS

        assert {value for name, value in vars(gguf.Keys.Adapter).items() if name[0] != "_"} <= {*_KEYS}
