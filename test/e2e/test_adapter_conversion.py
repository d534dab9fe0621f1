# SPDX-License-Identifier: Apache-2.0
"""`mebp adapter convert`: MLX-LM and llama.cpp compute with what is written what PEFT does, and it comes back whole."""

import json
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM

import mebp
from mebp.cli import main
from mebp.exporter.packaged import unpack
from mebp.gguf.model import ModelWriter
from support import models
from support.commands import refusal_in_process
from support.judges import judge
from support.llama_cpp import llama_cpp  # noqa: F401

TOLERANCE = 1e-4
# ggml looks the GELU up in a table of halves; without any adapter its logits are as far away.
GELU_TOLERANCE = 5e-3
FAMILIES = ["llama", "mistral", "qwen2", "qwen3", "phi3", "gpt2_tanh", "gemma3_text"]


# What the tools need to know as they expect it, or compute by themselves.
OVERRIDES = {
    "qwen2": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}
    },  # MLX-LM looks elsewhere, else takes this
    "gpt2_tanh": {"n_ctx": 128},  # MLX-LM asks for it
    "gemma3_text": {
        "hidden_size": 64,  # MLX-LM rounds its root to bf16
        "num_hidden_layers": 6,  # llama.cpp knows no other order of layers
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    },
}


class Adapted:
    """A tiny model in a folder, an adapter of PEFT beside it, and the logits of both together."""

    def __init__(self, folder: Path, family: str, base: Path | None = None, **options: object) -> None:
        """base: the model's folder, else one of the family is made."""
        self.family, self.folder = family, folder
        self.base, self.adapter = base or folder / "base", folder / "adapter"
        if base is None:
            models.save(models.build(family, **OVERRIDES.get(family, {})), self.base)
        model = AutoModelForCausalLM.from_pretrained(self.base).float().eval()
        self.ids = models.token_ids(model, 1, 40)
        self.plain = self._logits(model)
        chosen = {"r": 4, "lora_alpha": 10, "target_modules": "all-linear", "task_type": "CAUSAL_LM", **options}
        adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(self.base), LoraConfig(**chosen)).eval()
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for name, parameter in adapted.named_parameters():
                if "lora_" in name:
                    parameter.copy_((0.1 if base is None else 0.02) * torch.randn(parameter.shape, generator=generator))
        adapted.save_pretrained(self.adapter, save_embedding_layers=False)
        self.logits = self._logits(adapted)

    def _logits(self, model) -> np.ndarray:
        with torch.no_grad():
            return model(input_ids=self.ids).logits[0].numpy()

    def to(self, form: str, source: Path | None = None, name: str | None = None) -> Path:
        written = self.folder / (name or f"adapter.{form}")
        mebp.convert_adapter(source or self.adapter, written, form, base=self.base)
        return written

    def in_peft(self, adapter: Path) -> np.ndarray:
        return self._logits(PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(self.base), adapter).eval())

    def in_mlx(self, adapter: Path) -> np.ndarray:
        utils = judge("mlx_lm.utils")
        import mlx.core as mx
        from mlx_lm.tuner.utils import load_adapters

        model, _ = utils.load_model(self._as_published())
        load_adapters(model, str(adapter))
        model.eval()
        return np.array(model(mx.array(self.ids.numpy()))[0])

    def _as_published(self) -> Path:
        """GPT-2's tensors are called otherwise on the hub, and MLX-LM expects that."""
        if self.family != "gpt2_tanh":
            return self.base
        folder = self.folder / "published"
        shutil.copytree(self.base, folder, dirs_exist_ok=True)
        tensors = load_file(self.base / "model.safetensors")
        save_file(
            {name.removeprefix("transformer."): values for name, values in tensors.items()},
            folder / "model.safetensors",
            metadata={"format": "pt"},
        )
        return folder

    def in_llama_cpp(self, llama_cpp, adapter: Path) -> np.ndarray:  # noqa: F811
        file = self.folder / "base.gguf"
        if not file.exists():
            write_gguf(self.base, file)
        return llama_cpp.logits(file, self.ids[0].numpy(), adapter)


def write_gguf(folder: Path, file: Path, dtype: str = "f32") -> None:
    tensors = load_file(folder / "model.safetensors")
    ModelWriter(folder, {name: values.shape for name, values in tensors.items()}, dtype).write(
        file, tensors.values(), "tiny"
    )


def difference(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max())


@pytest.fixture(scope="module", params=FAMILIES)
def adapted(request, tmp_path_factory) -> Adapted:
    return Adapted(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Adapted:
    return Adapted(tmp_path_factory.mktemp("llama"), "llama")


def test_each_tool_computes_the_same(adapted, llama_cpp, show):  # noqa: F811
    of_mlx = difference(adapted.in_mlx(adapted.to("mlx", name="mlx")), adapted.logits)
    of_llama_cpp = difference(adapted.in_llama_cpp(llama_cpp, adapted.to("gguf")), adapted.logits)
    show(f"adapter of {adapted.family}: logits of MLX-LM within {of_mlx:.1e}, of llama.cpp {of_llama_cpp:.1e}")
    assert difference(adapted.plain, adapted.logits) > 100 * GELU_TOLERANCE
    assert of_mlx < TOLERANCE
    assert of_llama_cpp < (GELU_TOLERANCE if adapted.family in ("gpt2_tanh", "gemma3_text") else TOLERANCE)


def test_smollm2(tmp_path, llama_cpp, show):  # noqa: F811
    adapted = Adapted(tmp_path, "llama", unpack("packaged:smollm2"))
    of_mlx, of_gguf = adapted.to("mlx", name="mlx"), adapted.to("gguf")
    found = {
        "MLX-LM": difference(adapted.in_mlx(of_mlx), adapted.logits),
        "llama.cpp": difference(adapted.in_llama_cpp(llama_cpp, of_gguf), adapted.logits),
        "PEFT from MLX-LM's": difference(adapted.in_peft(adapted.to("peft", of_mlx, "one")), adapted.logits),
        "PEFT from llama.cpp's": difference(adapted.in_peft(adapted.to("peft", of_gguf, "other")), adapted.logits),
    }
    listed = ", ".join(f"{tool} {figure:.1e}" for tool, figure in found.items())
    changed = difference(adapted.plain, adapted.logits)
    show(f"adapter of SmolLM2-135M: largest difference of logits {listed}; the adapter changes them by {changed:.1f}")
    assert changed > 1 and max(found.values()) < 1e-3


@pytest.mark.parametrize("form", ["mlx", "gguf"])
def test_an_adapter_comes_back_bitwise(adapted, form, tmp_path):
    written = tmp_path / form
    assert main(["adapter", "convert", str(adapted.adapter), "--to", form, "-o", str(written),
                 "--base", str(adapted.base)]) == 0  # fmt: skip
    back = adapted.to("peft", written, f"back-from-{form}")
    before, after = (load_file(each / "adapter_model.safetensors") for each in (adapted.adapter, back))
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[key], after[key]) for key in before)
    assert difference(adapted.in_peft(back), adapted.logits) == 0
    config = json.loads((back / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["base_model_name_or_path"]) == (4, 10, str(adapted.base))
    assert not any("." in name for name in config["target_modules"])


@pytest.mark.parametrize(
    "options",
    [
        {"use_rslora": True},
        {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {r"layers\.1\.mlp\.up_proj": 3.5}},
        {"layers_to_transform": [1], "target_modules": ["q_proj", "down_proj"]},
        {"target_modules": ["q_proj", "lm_head"]},
    ],
    ids=["rslora", "patterns", "one-layer", "head"],
)
def test_other_settings_compute_the_same(tmp_path, llama_cpp, options):  # noqa: F811
    adapted = Adapted(tmp_path, "llama", **options)
    of_mlx, of_gguf = adapted.to("mlx", name="mlx"), adapted.to("gguf")
    assert difference(adapted.plain, adapted.logits) > 100 * TOLERANCE
    assert difference(adapted.in_mlx(of_mlx), adapted.logits) < TOLERANCE
    assert difference(adapted.in_llama_cpp(llama_cpp, of_gguf), adapted.logits) < TOLERANCE
    for number, form in enumerate((of_mlx, of_gguf)):
        back = adapted.to("peft", form, f"back-{number}")
        assert difference(adapted.in_peft(back), adapted.logits) < TOLERANCE


def test_a_bundle_is_a_base_too(tmp_path, capsys):
    adapted = Adapted(tmp_path, "llama")
    (tmp_path / "name.mebp" / "tokenizer").mkdir(parents=True)
    shutil.copy(adapted.base / "config.json", tmp_path / "name.mebp" / "tokenizer")
    given = ["adapter", "convert", str(adapted.adapter), "--to", "gguf", "--base", str(tmp_path / "name.mebp")]
    file = tmp_path / "deep" / "one.gguf"
    assert main([*given, "-o", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{file}: 21 layers of rank 4, from PEFT's form to llama.cpp's",
        f"llama.cpp loads it with: llama-server -m BASE.gguf --lora {file}; BASE.gguf is the model that it was trained "
        "on",
    ]
    assert file.read_bytes() == adapted.to("gguf").read_bytes()


def test_the_command_that_loads_it_is_one_for_a_shell(tmp_path, capsys):
    adapted = Adapted(tmp_path, "llama")
    base, file = tmp_path / "the base.gguf", tmp_path / "it's.gguf"
    write_gguf(adapted.base, base)
    assert main(["adapter", "convert", str(adapted.adapter), "--to", "gguf", "--base", str(base), "-o", str(file)]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    command = shlex.split(said.removeprefix("llama.cpp loads it with: "))
    assert command == ["llama-server", "-m", str(base), "--lora", str(file)]


class TestRefusals:
    """One line each, with nothing left behind."""

    @pytest.fixture(autouse=True)
    def _given(self, llama, tmp_path, capsys):
        self.llama, self.folder, self.capsys = llama, tmp_path, capsys
        self.out = tmp_path / "out"

    def line(self, *arguments: object, left: tuple[str, ...] = ()) -> str:
        found = refusal_in_process(self.capsys, "adapter", "convert", *arguments)
        assert {each.name for each in self.folder.iterdir()} == set(left)
        return found.removeprefix("mebp: ").rstrip("\n").replace(f"{self.folder}/", "")

    def changed(self, **fields: object) -> Path:
        shutil.copytree(self.llama.adapter, self.folder / "changed")
        file = self.folder / "changed" / "adapter_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))
        return self.folder / "changed"

    def tensors(self, name: str, values: np.ndarray) -> Path:
        folder = self.changed()
        found = load_file(folder / "adapter_model.safetensors")
        save_file({**found, name: values}, folder / "adapter_model.safetensors")
        return folder

    def test_no_adapter(self):
        assert self.line(self.folder / "none", "--to", "mlx", "-o", self.out) == (
            "none: no such adapter; give its folder or GGUF file"
        )
        (self.folder / "empty").mkdir()
        assert self.line(self.folder / "empty", "--to", "mlx", "-o", self.out, left=("empty",)) == (
            "empty: is not an adapter, for it has no adapter_config.json; give an adapter's folder or GGUF file"
        )
        (self.folder / "empty" / "file").touch()
        assert self.line(self.folder / "empty" / "file", "--to", "mlx", "-o", self.out, left=("empty",)) == (
            "empty/file: is not an adapter; give its folder or GGUF file"
        )
        config = self.folder / "empty" / "adapter_config.json"
        config.write_text('{"peft_type": "IA3"}')
        assert self.line(self.folder / "empty", "--to", "mlx", "-o", self.out, left=("empty",)) == (
            "empty/adapter_config.json: peft_type is IA3, and only LORA is supported; train such an adapter"
        )
        config.write_text('{"fine_tune_type": "dora"}')
        assert self.line(self.folder / "empty", "--to", "peft", "-o", self.out, left=("empty",)) == (
            "empty/adapter_config.json: fine_tune_type is dora, and only lora is supported; train such an adapter"
        )
        config.write_text("{}")
        assert self.line(self.folder / "empty", "--to", "peft", "-o", self.out, left=("empty",)) == (
            "empty/adapter_config.json: lacks the number scale in lora_parameters; save the adapter again"
        )
        config.write_text('{"peft_type": "LORA", "lora_alpha": 16, "r": 8}')
        (self.folder / "empty" / "adapter_model.bin").touch()
        assert self.line(self.folder / "empty", "--to", "mlx", "-o", self.out, left=("empty",)) == (
            "empty: weights only as .bin; save the adapter as safetensors"
        )

    def test_an_output_that_exists(self):
        self.out.mkdir()
        (self.out / "precious").write_text("precious")
        for form in ("mlx", "gguf", "peft"):
            assert self.line(self.llama.adapter, "--to", form, "-o", self.out, left=("out",)) == (
                "out: exists already; choose another -o"
            )
        assert self.line(self.llama.adapter, "--to", "gguf", "-o", self.out / "precious", left=("out",)) == (
            "out/precious: exists already; choose another -o"
        )
        assert (self.out / "precious").read_text() == "precious"
        (self.out / "precious").unlink()
        assert self.line(self.llama.adapter, "--to", "gguf", "-o", self.out, left=("out",)) == (
            "out: is a folder; name the GGUF file to write"
        )

    def test_an_unknown_form(self):
        assert self.line(self.llama.adapter, "--to", "onnx", "-o", self.out) == (
            "--to onnx: no such form of an adapter; there is mlx, gguf, peft"
        )

    def test_a_kind_that_is_not_plain_lora(self):
        name = "base_model.model.model.embed_tokens.lora_embedding_A"
        folder = self.tensors(name, np.zeros((4, 333), np.float32))
        assert self.line(folder, "--to", "mlx", "-o", self.out, left=("changed",)) == (
            f"changed/adapter_model.safetensors: has '{name}', and only LoRA of linear layers is supported; train or "
            "save the adapter without it"
        )
        shutil.rmtree(folder)
        assert self.line(self.changed(use_dora=True), "--to", "mlx", "-o", self.out, left=("changed",)) == (
            "changed/adapter_config.json: use_dora is not supported; train the adapter without it"
        )
        shutil.rmtree(folder)
        assert self.line(self.changed(init_lora_weights="pissa"), "--to", "mlx", "-o", self.out, left=("changed",)) == (
            "changed/adapter_config.json: init_lora_weights is 'pissa', which changes the base weights; save the "
            "adapter with its path_initial_model_for_weight_conversion"
        )
        shutil.rmtree(folder)
        assert self.line(self.changed(lora_alpha=None), "--to", "mlx", "-o", self.out, left=("changed",)) == (
            "changed/adapter_config.json: lacks the number lora_alpha; save the adapter again"
        )

    @pytest.mark.parametrize("form, tool", [("mlx", "MLX-LM's form has no name for here"),
                                            ("gguf", "GGUF has no name for in architecture 'llama'")])  # fmt: skip
    def test_a_layer_without_a_name(self, form, tool):
        folder = self.tensors("base_model.model.model.extra.proj.lora_A.weight", np.zeros((4, 96), np.float32))
        tensors = load_file(folder / "adapter_model.safetensors")
        tensors["base_model.model.model.extra.proj.lora_B.weight"] = np.zeros((7, 4), np.float32)
        save_file(tensors, folder / "adapter_model.safetensors")
        assert self.line(folder, "--to", form, "-o", self.out, left=("changed",)) == (
            f"changed: adapts 'model.extra.proj', which {tool}; train the adapter without it"
        )

    def test_factors_that_do_not_fit(self):
        name = "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight"
        file = "changed/adapter_model.safetensors"
        folder = self.tensors(name, np.zeros((5, 96), np.float32))
        assert self.line(folder, "--to", "mlx", "-o", self.out, left=("changed",)) == (
            f"{file}: 'model.layers.0.mlp.up_proj' has factors [5, 96] and [200, 4], which do not fit; only LoRA of "
            "linear layers is supported"
        )
        tensors = load_file(folder / "adapter_model.safetensors")
        del tensors[name]
        save_file(tensors, folder / "adapter_model.safetensors")
        assert self.line(folder, "--to", "mlx", "-o", self.out, left=("changed",)) == (
            f"{file}: 'model.layers.0.mlp.up_proj' has one factor of two; save the adapter again"
        )
        save_file({}, folder / "adapter_model.safetensors")
        assert self.line(folder, "--to", "mlx", "-o", self.out, left=("changed",)) == (
            f"{file}: has no LoRA of a linear layer; give an adapter"
        )
        save_file({name: np.zeros((4, 96), np.int32)}, folder / "adapter_model.safetensors")
        assert self.line(folder, "--to", "mlx", "-o", self.out, left=("changed",)) == (
            f"{file}: '{name}' is stored as I32; save it in F32, BF16 or F16"
        )

    def test_a_base_that_is_not_there(self):
        folder = self.changed(base_model_name_or_path=None)
        advice = "give --base, a folder with the base model's config.json"
        assert self.line(folder, "--to", "gguf", "-o", self.out, left=("changed",)) == (
            f"changed: does not say what its base model is; {advice}"
        )
        (self.folder / "base").mkdir()
        left = ("base", "changed")
        assert self.line(folder, "--to", "gguf", "-o", self.out, "--base", self.folder / "base", left=left) == (
            f"base: no config.json of the base model; {advice}"
        )
        (self.folder / "base" / "config.json").write_text('{"model_type": "mamba"}')
        assert self.line(folder, "--to", "gguf", "-o", self.out, "--base", self.folder / "base", left=left) == (
            "changed: model type 'mamba' cannot be written as GGUF here; there is llama, mistral, qwen2, qwen3, "
            "gemma, gemma2, gemma3_text, gemma4_text, phi3, gpt2, qwen3_5_text, qwen3_5_moe_text, qwen3_next, lfm2, "
            "lfm2_moe, mixtral, qwen2_moe, qwen3_moe, smollm3, granite, olmo2"
        )
        (self.folder / "base" / "config.json").write_text('{"model_type": "llama"}')
        assert self.line(folder, "--to", "gguf", "-o", self.out, "--base", self.folder / "base", left=left) == (
            "changed: the base model's config.json lacks the number num_attention_heads; download it again"
        )
        config = {"model_type": "llama", "num_attention_heads": 5}
        (self.folder / "base" / "config.json").write_text(json.dumps(config))
        assert self.line(folder, "--to", "gguf", "-o", self.out, "--base", self.folder / "base", left=left) == (
            "changed: 'model.layers.0.self_attn.k_proj' has 48 rows, which are not 5 heads; use the adapter's own base "
            "model"
        )

    def test_a_package_that_is_missing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "gguf", None)
        line = self.line(self.llama.adapter, "--to", "gguf", "-o", self.out, "--base", self.llama.base)
        assert line.startswith("writing GGUF needs gguf (")
        assert line.endswith("); install it with: pip install 'mebp[gguf]'")

    @pytest.mark.parametrize("form", ["mlx", "gguf"])
    def test_a_tied_head(self, form):
        adapted = Adapted(self.folder / "qwen2", "qwen2", target_modules=["q_proj", "lm_head"])
        self.capsys.readouterr()  # transformers' bars
        assert self.line(adapted.adapter, "--to", form, "-o", self.out, left=("qwen2",)) == (
            "qwen2/adapter: adapts 'lm_head', which is tied to the embedding, and neither MLX-LM nor llama.cpp can "
            "adapt one without the other; merge it with mebp merge, or train the adapter without it"
        )

    def test_a_layer_that_mlx_lm_cuts_in_two(self):
        adapted = Adapted(self.folder / "latent", "deepseek_v3", target_modules=["kv_b_proj"])
        self.capsys.readouterr()  # transformers' bars
        assert self.line(adapted.adapter, "--to", "mlx", "-o", self.out, left=("latent",)) == (
            "latent/adapter: adapts 'model.layers.0.self_attn.kv_b_proj', which MLX-LM cuts in two where it loads a "
            "deepseek_v3; merge it with mebp merge, or train the adapter without it"
        )

    def test_a_gguf_file_that_is_not_an_adapter(self):
        whole = self.folder.parent / f"{self.folder.name}.gguf"
        mebp.convert_adapter(self.llama.adapter, whole, "gguf", base=self.llama.base)
        left, bad = ("bad.gguf",), self.folder / "bad.gguf"
        write_gguf(self.llama.base, bad)
        assert self.line(bad, "--to", "peft", "-o", self.out, left=left) == (
            "bad.gguf: is not a LoRA adapter (general.type is model, adapter.type None); give one"
        )
        content = whole.read_bytes()
        bad.write_bytes(content[:-100])
        line = self.line(bad, "--to", "peft", "-o", self.out, "--base", self.llama.base, left=left)
        assert line.startswith(f"bad.gguf: cut off ({len(content) - 100} bytes where tensor 'blk.2.")
        assert line.endswith("; download it again")
        bad.write_bytes(b"")
        assert self.line(bad, "--to", "peft", "-o", self.out, left=left) == (
            "bad.gguf: cut off (0 bytes do not hold its header); download it again"
        )
        assert self.line(whole, "--to", "peft", "-o", self.out, left=left) == (
            f"{whole}: does not say what its base model is; give --base, a folder with the base model's config.json"
        )


@pytest.mark.parametrize("layers, last", [([2], 1), ([1], 2), ([0, 2], -1)], ids=str)
def test_mlx_adapts_as_many_last_layers_as_it_takes(tmp_path, layers, last):
    """And PEFT's settings have the layers again, after the way back."""
    adapted = Adapted(tmp_path, "llama", layers_to_transform=layers, target_modules=["q_proj", "down_proj"])
    of_mlx = adapted.to("mlx")
    assert json.loads((of_mlx / "adapter_config.json").read_text())["num_layers"] == last
    assert difference(adapted.in_mlx(of_mlx), adapted.logits) < TOLERANCE
    back = adapted.to("peft", of_mlx, "back")
    assert json.loads((back / "adapter_config.json").read_text())["layers_to_transform"] == layers


def test_mlx_adapts_all_layers_of_a_base_that_is_not_here(tmp_path, capsys):
    adapted = Adapted(tmp_path, "llama", layers_to_transform=[2], target_modules=["q_proj"])
    config = adapted.adapter / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"base_model_name_or_path": "nobody/nothing"}))
    output = tmp_path / "elsewhere"
    assert main(["adapter", "convert", str(adapted.adapter), "--to", "mlx", "-o", str(output)]) == 0
    assert json.loads((output / "adapter_config.json").read_text())["num_layers"] == -1
    assert "MLX-LM adapts all layers, of which those before layer 2 add nothing: " in capsys.readouterr().out
