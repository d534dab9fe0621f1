# SPDX-License-Identifier: Apache-2.0
"""Each key of a GGUF file away from its default: the loss is llama.cpp's, or the key is refused by its name.

The transformers model that a file becomes is compared, for it is what an export traces.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

from mebp import extras
from mebp.errors import Error
from mebp.gguf.architectures import architecture_named
from mebp.gguf.model import ModelWriter
from mebp.gguf.source import unpack_gguf
from support.gguf_files import File, Tensor
from support.gguf_models import WORDS, decoder
from support.llama_cpp import llama_cpp  # noqa: F401

TOKENS, TOLERANCE = 60, 1e-4
NAMES = ("llama", "qwen2", "qwen3", "phi3", "gpt2", "gemma3")
WIDTHS = ("attention.key_length", "attention.value_length", "rope.dimension_count")
YARN = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": ("f32", 4.0),
    "rope.scaling.original_context_length": ("u32", 16),
}
# What changes the loss, in all that have rotary positions.
READ = {
    "a factor alone": {"rope.scaling.factor": ("f32", 4.0)},
    "the factor of old files": {"rope.scale_linear": ("f32", 4.0)},
    "two factors": {"rope.scaling.factor": ("f32", 2.0), "rope.scale_linear": ("f32", 4.0)},
    "linear": {"rope.scaling.type": "linear", "rope.scaling.factor": ("f32", 4.0)},
    "yarn": YARN,
    "yarn of the whole context": {**YARN, "rope.scaling.original_context_length": ("u32", 64)},
    "yarn with its attention": {**YARN, "rope.scaling.attn_factor": ("f32", 1.5)},
    "yarn of the old factor": {"rope.scaling.type": "yarn", "rope.scale_linear": ("f32", 8.0)},
    "another base": {"rope.freq_base": ("f32", 500.0)},
    "another epsilon": {"attention.layer_norm_rms_epsilon": ("f32", 0.5)},
}
OF_GEMMA = {
    "another window": {"attention.sliding_window": ("u32", 8)},
    "no window": {"attention.sliding_window": ("u32", 0)},
    "a window in every second layer": {"attention.sliding_window_pattern": ("u32", 2)},
    "a window in all layers": {"attention.sliding_window_pattern": ("u32", 0)},
    "another base with a window": {"rope.freq_base_swa": ("f32", 500.0)},
    "logits that are bent": {"final_logit_softcapping": ("f32", 5.0)},
}
OTHERS = {
    "other sizes": {"block_count": ("u32", 3), "feed_forward_length": ("u32", 96), "attention.head_count": ("u32", 4),
                    "attention.head_count_kv": ("u32", 2), **dict.fromkeys(WIDTHS, ("u32", 8))},
    "other sizes of GPT-2": {"block_count": ("u32", 3), "feed_forward_length": ("u32", 96),
                             "attention.head_count": ("u32", 4), "attention.head_count_kv": ("u32", 4),
                             "context_length": ("u32", 80),
                             **dict.fromkeys(WIDTHS, ("u32", 8))},
    "another epsilon of GPT-2": {"attention.layer_norm_epsilon": ("f32", 0.5)},
    "positions in a part": {"rope.dimension_count": ("u32", 8)},
    "as many layers as 27B": {"block_count": ("u32", 62), **dict.fromkeys(WIDTHS, ("u32", 8))},
    "yarn of another context": {"context_length": ("u32", 128), "rope.scaling.type": "yarn",
                                "rope.scaling.factor": ("f32", 4.0)},
}  # fmt: skip
SCALED = [title for title, keys in READ.items() if "rope.scaling.type" in keys or "factor" in title]
# Refused below, but for GPT-2's, which llama.cpp ignores.
NOT_THERE = {
    *[("gpt2", title) for title in READ],
    *[("phi3", title) for title in SCALED],
    ("gemma3", "yarn with its attention"),
}
CASES = [
    *[(name, title) for name in NAMES for title in READ if (name, title) not in NOT_THERE],
    *[("gemma3", title) for title in OF_GEMMA],
    *[(name, "other sizes") for name in NAMES if name != "gpt2"],
    ("gpt2", "other sizes of GPT-2"),
    ("gpt2", "another epsilon of GPT-2"),
    ("phi3", "positions in a part"),
    *[(name, "yarn of another context") for name in NAMES if name not in ("gpt2", "phi3")],
    ("gemma3", "as many layers as 27B"),
]
ALL = {**READ, **OF_GEMMA, **OTHERS}

# What llama.cpp ignores.
WITHOUT_EFFECT = {
    "no scaling": {"rope.scaling.type": "none", "rope.scaling.factor": ("f32", 4.0)},
    "a factor of 0": {"rope.scaling.factor": ("f32", 0.0)},
    "a context without yarn": {"rope.scaling.original_context_length": ("u32", 16)},
    "finetuned": {"rope.scaling.finetuned": ("bool", 1)},
    "alpha": {"rope.scaling.alpha": ("f32", 3.0)},
    "pooling": {"pooling_type": ("u32", 1)},
    "an output of embeddings": {"embedding_length_out": ("u32", 16)},
    "a layout": {"tensor_data_layout": "Meta AI original pth"},
    "what is so": {"attention.causal": ("bool", 1), "expert_count": ("u32", 0), "expert_used_count": ("u32", 0)},
}
WITHOUT_WINDOW = {"a window": {"attention.sliding_window": ("u32", 8)}}
WITHOUT_IMAGES = {"images": {"mm.tokens_per_image": ("u32", 256), "vision.block_count": ("u32", 27)}}
WITHOUT_LAYER_NORM = {"the other epsilon": {"attention.layer_norm_epsilon": ("f32", 0.5)}}


def ignored_in(name: str) -> dict[str, dict[str, object]]:
    if name == "gpt2":
        return {**WITHOUT_EFFECT, **WITHOUT_WINDOW, **READ}
    return {**WITHOUT_EFFECT, **WITHOUT_LAYER_NORM, **(WITHOUT_IMAGES if name == "gemma3" else WITHOUT_WINDOW)}


def with_keys(name: str, keys: dict[str, object]) -> File:
    """A random model, which has nothing beyond what its architecture needs, and these keys."""
    file = decoder(name)
    plain = [(key, value) for key, value in file.keys if not key.startswith(("tokenizer.", f"{name}.rope.scaling"))]
    file = replace(file, keys=[*plain, ("tokenizer.ggml.model", "no_vocab")])
    file = file.with_key(f"{name}.attention.sliding_window", ("u32", 16 if name == "gemma3" else 0))
    for key, value in {"block_count": ("u32", 8 if name == "gemma3" else 2), **keys}.items():
        file = file.with_key(f"{name}.{key}", value)
    return replace(file, tensors=list(random_tensors(file, name)))


def random_tensors(file: File, name: str):
    choose = np.random.default_rng(0)
    for tensor in file.tensors:
        for layer in range(number(file, name, "block_count") if tensor.name.startswith("blk.0") else 1):
            module, _, parameter = tensor.name.replace("blk.0", f"blk.{layer}").rpartition(".")
            is_norm = module.endswith("norm") and parameter == "weight"
            shape = shape_of(file, name, module, tensor.shape)
            values = choose.standard_normal(shape) * (0.2 if is_norm or parameter == "bias" else 0.3) + is_norm
            if is_norm:
                values = np.round(values * 1024) / 1024  # so that what Gemma adds to it, 1, can be taken off again
            factor = gelu_factor(name, module)
            values = values * (max(factor, 1) if parameter == "bias" else factor)
            yield Tensor(f"{module}.{parameter}", shape, "F32", content=values.astype(np.float32).tobytes())


def number(file: File, name: str, key: str) -> int:
    return dict(file.keys)[f"{name}.{key}"][1]


def shape_of(file: File, name: str, module: str, usual: tuple[int, ...]) -> tuple[int, ...]:
    """As the file's sizes make it; a bias has the first extent."""
    width, inner = number(file, name, "attention.key_length"), number(file, name, "feed_forward_length")
    queries, keys = (number(file, name, f"attention.{each}") * width for each in ("head_count", "head_count_kv"))
    rows = {"attn_q": queries, "attn_k": keys, "attn_v": keys, "attn_qkv": queries + 2 * keys, "ffn_gate": inner,
            "ffn_up": inner * (2 if name == "phi3" else 1), "attn_q_norm": width, "attn_k_norm": width,
            "position_embd": number(file, name, "context_length")}  # fmt: skip
    columns = {"attn_output": queries, "ffn_down": inner}
    kind = module.rpartition(".")[2]
    return (rows.get(kind, usual[0]), *(columns.get(kind, extent) for extent in usual[1:]))


def gelu_factor(name: str, module: str) -> float:
    """ggml looks the GELU of less than 10 up in a table of halves, which is off by up to 5e-3: beside larger numbers
    that is little."""
    if name in ("gpt2", "gemma3") and module.startswith("blk."):
        inner = module.rpartition(".")[2]
        return {"ffn_up" if name == "gpt2" else "ffn_gate": 1024.0, "ffn_down": 1 / 1024}.get(inner, 1.0)
    return 1.0


IDS = np.random.default_rng(1).integers(0, WORDS, TOKENS)


def loss_of(logits: np.ndarray) -> float:
    values = torch.from_numpy(logits).double()
    return torch.nn.functional.cross_entropy(values[:-1], torch.from_numpy(IDS[1:])).item()


def of_llama_cpp(llama, file: File, place) -> float:
    place.write_bytes(file.bytes())
    return loss_of(llama.logits(place, IDS))


def of_this(place, folder) -> float:
    unpack_gguf(place, folder)
    model, report = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", output_loading_info=True)
    assert not any(report.values()), report
    with torch.no_grad():
        return loss_of(model.eval()(input_ids=torch.from_numpy(IDS)[None]).logits[0].numpy())


@pytest.mark.parametrize(("name", "title"), CASES)
def test_what_is_read_is_as_llama_cpp_reads_it(tmp_path, name, title, llama_cpp):  # noqa: F811
    if name == "gemma3" and "yarn" in title and extras.is_older("transformers", "5.18"):
        pytest.skip("transformers 5.8 looks for the context of yarn at the side of Gemma 3's two kinds of layers")
    place = tmp_path / "model.gguf"
    plain = of_llama_cpp(llama_cpp, with_keys(name, {}), place)
    expected = of_llama_cpp(llama_cpp, with_keys(name, ALL[title]), place)
    assert abs(expected - plain) > 5 * TOLERANCE  # else the key says nothing
    assert abs(of_this(place, tmp_path / "unpacked") - expected) < TOLERANCE
    # And back: what is written is the same model to llama.cpp.
    tensors = load_file(tmp_path / "unpacked" / "model.safetensors")
    shapes = {each: values.shape for each, values in tensors.items()}
    writer = ModelWriter(tmp_path / "unpacked", shapes, "f32")
    assert writer.keys - {"vocab_size"} <= architecture_named(name, "").keys.read
    writer.write(tmp_path / "again.gguf", tensors.values(), "tiny")
    assert loss_of(llama_cpp.logits(tmp_path / "again.gguf", IDS)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_what_changes_nothing_changes_nothing_in_llama_cpp(tmp_path, name, llama_cpp):  # noqa: F811
    place = tmp_path / "model.gguf"
    plain = of_llama_cpp(llama_cpp, with_keys(name, {}), place)
    assert abs(of_this(place, tmp_path / "plain") - plain) < TOLERANCE
    config = (tmp_path / "plain" / "config.json").read_text()
    for title, keys in ignored_in(name).items():
        assert of_llama_cpp(llama_cpp, with_keys(name, keys), place) == plain, title
        unpack_gguf(place, tmp_path / "unpacked", with_weights=False)
        assert (tmp_path / "unpacked" / "config.json").read_text() == config, title


ONLY_0 = (("u32", 1), "is 1, and only 0 can be read here")
NOT_KNOWN = "which is not known here and may change what the model computes"
REFUSED = {
    "attention.causal": (("bool", 0), "is false, and only true can be read here"),
    "expert_count": ONLY_0,
    "expert_used_count": ONLY_0,
    "expert_group_count": ONLY_0,
    "expert_group_used_count": ONLY_0,
    "nextn_predict_layers": ONLY_0,
    "attention.value_length": (("u32", 8), "is 8, and only 16 can be read here"),
    "attention.key_length_swa": (("u32", 8), "is 8, and 'NAME.attention.key_length' is not"),
    "attention.value_length_swa": (("u32", 8), "is 8, and 'NAME.attention.value_length' is not"),
    "rope.dimension_count_swa": (("u32", 8), "is 8, and 'NAME.rope.dimension_count' is not"),
    "rope.scaling.yarn_ext_factor": (("f32", 0.5), "is 0.5, and only 1.0 can be read here"),
    "rope.scaling.yarn_attn_factor": (("f32", 0.5), "is 0.5, and only 1.0 can be read here"),
    "rope.scaling.yarn_beta_fast": (("f32", 8.0), "is 8.0, and only 32.0 can be read here"),
    "rope.scaling.yarn_beta_slow": (("f32", 2.0), "is 2.0, and only 1.0 can be read here"),
    "rope.scaling.yarn_log_multiplier": (("f32", 0.5), "is 0.5, and only 0.0 can be read here"),
    "attention.scale": (("f32", 0.5), NOT_KNOWN),
    "rope.scaling.beta_fast": (("f32", 8.0), NOT_KNOWN),
    "logit_scale": (("f32", 8.0), NOT_KNOWN),
}
REFUSED_POSITIONS = {
    "rope.scaling.type": ("longrope", "is 'longrope', and none, linear, yarn can be read here"),
    "rope.scaling.attn_factor": (("f32", 1.5), "is 1.5 without YaRN, which cannot be read here"),
    "rope.scaling.factor": (("f32", 0.5), "is 0.5, and only 0 and numbers from 1 on can be read here"),
    "rope.scale_linear": (("f32", 0.5), "is 0.5, and only 0 and numbers from 1 on can be read here"),
}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_read_is_refused_by_its_name(tmp_path, name):
    place = tmp_path / "model.gguf"
    for key, (value, said) in {**REFUSED, **({} if name == "gpt2" else REFUSED_POSITIONS)}.items():
        if (name, key) == ("llama", "expert_count"):
            continue
        line = refusal(place, with_keys(name, {key: value}))
        assert f"'{name}.{key}'" in line and said.replace("NAME", name) in line


def test_a_llama_that_says_it_has_experts(tmp_path):
    """It is a Mixtral then, whose layers have no other tensors."""
    line = refusal(tmp_path / "model.gguf", with_keys("llama", {"expert_count": ("u32", 2)}))
    assert "has the tensor 'blk.0.ffn_gate.weight', which is not known in architecture 'llama'; export the" in line


def test_a_part_of_layers_with_a_window_beside_the_usual_one(tmp_path):
    """llama.cpp takes the head's width where rope.dimension_count is missing."""
    file = with_keys("gemma3", {"rope.dimension_count_swa": ("u32", 8)}).without("gemma3.rope.dimension_count")
    assert "'gemma3.rope.dimension_count_swa' is 8, and " in refusal(tmp_path / "model.gguf", file)


def refusal(place, file: File) -> str:
    place.write_bytes(file.bytes())
    with pytest.raises(Error) as caught:
        unpack_gguf(place, place.parent / "unpacked", with_weights=False)
    assert str(caught.value).startswith(f"{place}: ")
    return str(caught.value)


@pytest.mark.parametrize("title", SCALED)
def test_positions_of_phi_that_transformers_cannot_scale(tmp_path, title):
    line = refusal(tmp_path / "model.gguf", with_keys("phi3", READ[title]))
    assert "'phi3.rope.scal" in line and "positions that are scaled cannot be read in 'phi3'; export the mo" in line


def test_attention_of_yarn_that_llama_cpp_has_in_other_layers_too(tmp_path):
    line = refusal(tmp_path / "model.gguf", with_keys("gemma3", READ["yarn with its attention"]))
    assert "'gemma3.rope.scaling.attn_factor' is 1.5, and only 1 can be read in 'gemma3'; export the mo" in line


@pytest.mark.parametrize("name", NAMES)
def test_each_key_of_the_table_is_tried(name):
    tried = {key for case, title in CASES if case == name for key in ALL[title]}
    tried |= {*REFUSED, *REFUSED_POSITIONS, *(key for keys in ignored_in(name).values() for key in keys)}
    # That these are read shows in every file; Phi-3's context changes nothing here.
    shown = {"embedding_length", "vocab_size"} | ({"context_length"} if name == "phi3" else set())
    assert architecture_named(name, "").keys.known - tried <= shown
