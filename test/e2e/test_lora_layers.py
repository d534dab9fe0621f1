# SPDX-License-Identifier: Apache-2.0
"""--lora-layers: what is trained in some layers has the gradients that it has beside all others, and what lies below is
neither differentiated nor kept."""

import json

import numpy as np
import pytest
import torch
from peft import PeftModel

import mebp
from mebp.inspect import describe_trained, inspect
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from mebp.verification.reference import load_weights
from support import models
from support.exports import export
from support.pipeline import check, compare_gradients, make_bundle

SEQUENCE, LAYERS = 24, 4
EXACT = {"weights": "f32", "embedding_weights": "f32"}
CASES = {
    "usual": {},
    "bf16": {"precision": "bf16"},
    "chunks": {"chunk_size": 7},
    "spacing": {"checkpoint_spacing": 2},
    "disk": {"spill": "checkpoints"},
    "value head": {"value_head": True},
    "router loss": {"router_aux_loss_coef": 0.5},
    "packing": {"packing": True},
    "the head, too": {"lora": mebp.LoRA(targets=["q_proj", "down_proj", "lm_head"])},
    "full": {"train": "full", **EXACT},
    "the embedding, too": {"train": "full", "train_targets": ["all-linear", "model.embed_tokens.weight"], **EXACT},
}


def build(case: str = ""):
    return models.build("qwen3_moe" if case == "router loss" else "llama", num_hidden_layers=LAYERS)


def layer_of(key: str) -> int | None:
    return next((int(part) for part in key.split(".") if part.isdigit()), None)


def compile_pair(folder, model, layers: str, **options):
    """A bundle that trains `layers`, and one that trains all."""
    for name, chosen in (("some", layers), ("all", None)):
        (folder / name).mkdir()
        yield make_bundle(model, folder / name, seq_len=SEQUENCE, lora_layers=chosen, **options)


def open_pair(some, whole, **options):
    """Sessions that compute the same: of layers that one alone adapts, B is zero."""
    sessions = [mebp.Session(bundle, **options) for bundle in (some, whole)]
    randomise_adapter(sessions[0])
    sessions[1].set_trainables({**sessions[1].trainables(), **sessions[0].trainables()})
    return sessions


def expect_same(found: dict, among: dict) -> None:
    assert any(np.any(values) for values in found.values())
    for key, values in found.items():
        assert np.array_equal(values, among[key]), key


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_beside_all_others(tmp_path, case, count):
    """Bit for bit: what is below has no part in them."""
    model = build(case)
    some, whole = open_pair(*compile_pair(tmp_path, model, f"last:{count}", **CASES[case]))
    ids = models.token_ids(model, 1, SEQUENCE).numpy()
    loss, gradients = some.loss_and_gradients(ids, ids)
    expected_loss, expected = whole.loss_and_gradients(ids, ids)
    assert loss == expected_loss
    of_layers = {key for key in expected if layer_of(key) is not None}
    last = {key for key in of_layers if layer_of(key) >= LAYERS - count}
    assert gradients.keys() == expected.keys() - of_layers | last
    expect_same(gradients, expected)


def test_preferences_have_the_same_reference(tmp_path):
    """What DPO compares with: log-probabilities without the adapter; and what it sends back."""
    model = build()
    some, whole = open_pair(*compile_pair(tmp_path, model, "last:1"), accumulate=True)
    ids = models.token_ids(model, 1, SEQUENCE).numpy()
    assert np.array_equal(some.logprobs(ids, adapter=False), whole.logprobs(ids, adapter=False))
    assert not np.array_equal(some.logprobs(ids, adapter=False), some.logprobs(ids))
    coefficients = np.random.default_rng(0).normal(size=(1, SEQUENCE - 1))
    for session in (some, whole):
        session.sequence(ids).backward(coefficients)
    expect_same(some.gradients(), whole.gradients())


def test_mezo_moves_what_is_chosen(tmp_path):
    model = build()
    some, whole = open_pair(*compile_pair(tmp_path, model, "last:1"), optimizer="mezo", lr=1e-3)
    ids = models.token_ids(model, 1, SEQUENCE).numpy()
    assert some.loss(ids, ids) == whole.loss(ids, ids)
    before = some.trainables()
    some.step(ids, ids)
    after = some.trainables()
    assert {layer_of(key) for key in after} == {LAYERS - 1}
    assert all(not np.array_equal(after[key], before[key]) for key in after)


@pytest.mark.parametrize("spacing, places", [(1, [1, 2, 3, 4]), (2, [1, 2, 3, 3])])
def test_layers_below_keep_nothing(tmp_path, spacing, places):
    model = build()
    bundles = []
    for count in range(1, LAYERS + 1):
        (tmp_path / str(count)).mkdir()
        bundles.append(make_bundle(model, tmp_path / str(count), seq_len=SEQUENCE, lora_layers=f"last:{count}",
                                   checkpoint_spacing=spacing))  # fmt: skip
    kept = [mebp.Session(bundle).plan["arenas"]["checkpoints"] for bundle in bundles]
    assert [each // kept[0] for each in kept] == places
    for count, bundle in enumerate(bundles, 1):
        with_backward = [block["name"] for block in inspect(bundle)["blocks"] if "backward" in block["programs"]]
        assert len(with_backward) == count


@pytest.mark.parametrize("layers", ["last:1", "1-1"])
def test_gradients_are_torchs(tmp_path, show, layers):
    model = build()
    bundle = make_bundle(model, tmp_path, seq_len=SEQUENCE, lora_layers=layers)
    session = mebp.Session(bundle)
    randomise_adapter(session)
    ids = models.token_ids(model, 1, SEQUENCE).numpy()
    result = compare_gradients(bundle, session, model, ids, ids)
    show(f"{layers}: {result}")
    check(result)


def test_peft_adapts_the_same_layers(tmp_path):
    model = build()
    bundle = make_bundle(model, tmp_path, seq_len=SEQUENCE, lora_layers="last:2")
    session = mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(tmp_path / "adapter")
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config["layers_to_transform"] == [2, 3] and config["layers_pattern"] == "layers"
    assert not any("." in name for name in config["target_modules"])
    base = build()
    load_weights(base, session.base_weights())
    adapted = PeftModel.from_pretrained(base, tmp_path / "adapter")
    adapted_layers = {layer_of(name) for name, _ in adapted.named_parameters() if "lora_" in name}
    assert adapted_layers == {2, 3}
    ids = models.token_ids(model, 1, SEQUENCE)
    with torch.no_grad():
        expected = adapted.float()(input_ids=ids).logits.numpy()
    assert relative_error(session.logits(ids.numpy()), expected) < 1e-5


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    export(build(), folder / "model.onnx", seq_len=SEQUENCE, batch=2)
    return folder / "model.onnx"


FORM = ": give the last ones, such as last:8, or the numbers of the first and the last, such as 20-23"


@pytest.mark.parametrize(
    ("layers", "options", "why"),
    [
        *((text, {}, f"--lora-layers {text}{FORM}")
          for text in ("", "last", "last:", "last:1-2", "two", "2-1", "-1", "0,1")),
        ("last:0", {}, "--lora-layers last:0: leaves no layer to train; give last:1 or more"),
        ("last:5", {}, "--lora-layers last:5: the model has 4 layers; give last:4 or fewer"),
        ("2-4", {}, "--lora-layers 2-4: the model has layers 0 to 3; give numbers of these"),
        ("7", {"train": "full", "weights": "bf16"},
         "--lora-layers 7: the model has layers 0 to 3; give numbers of these"),
        ("last:1", {"lora": mebp.LoRA(targets=["model.layers.0.self_attn.q_proj"])},
         "--lora-targets: 'model.layers.0.self_attn.q_proj' names a layer by its number, as --lora-layers does; leave "
         "out one of them"),
        ("last:1", {"train": "full", "weights": "bf16", "train_targets": "*.layers.2.*"},
         "--train-targets: '*.layers.2.*' names a layer by its number, as --lora-layers does; leave out one of them"),
        ("1", {"lora": mebp.LoRA(targets=["q_proj", "odd"])},
         "--lora-targets: 'odd' matches no linear layer in layer 1; there are "),
        ("1-2", {"train": "full", "weights": "bf16", "train_targets": "model.norm*"},
         "--train-targets 'model.norm*': matches no parameter in layers 1 to 2; the layers' names end in "),
        ("last:1", {"adapter": mebp.PrivateLoRA()},
         "--lora-layers: is not for --adapter private-lora; leave it out, or give --split-layers"),
    ],
    ids=str,
)  # fmt: skip
def test_refusals(exported, tmp_path, layers, options, why):
    with pytest.raises(mebp.Error) as refused:
        mebp.compile(exported, tmp_path / "out.mebp", lora_layers=layers, **options)
    line = str(refused.value)
    assert why in line and (line.endswith(why) or why.endswith(" ")) and "\n" not in line
    assert not (tmp_path / "out.mebp").exists()


def test_an_adapter_of_other_layers_is_refused(exported, tmp_path):
    bundles = {}
    for layers in ("last:1", "last:2", None):
        bundles[layers] = tmp_path / f"{layers}.mebp".replace(":", "-")
        mebp.compile(exported, bundles[layers], lora_layers=layers)
    mebp.Session(bundles["last:1"]).save_adapter(tmp_path / "adapter")
    mebp.Session(bundles["last:1"]).load_adapter(tmp_path / "adapter")
    for layers, missing in (("last:2", 2), (None, 0)):
        with pytest.raises(mebp.Error) as refused:
            mebp.Session(bundles[layers]).load_adapter(tmp_path / "adapter")
        assert str(refused.value).endswith(
            f"adapter_config.json: layers_to_transform is [3], the bundle trains layer {missing}, too; compile with "
            "these --lora-layers or choose another adapter"
        )


def test_a_bundle_says_its_layers(exported, tmp_path):
    mebp.compile(exported, tmp_path / "some.mebp", lora_layers="1-2")
    description = inspect(tmp_path / "some.mebp")
    assert describe_trained(description).endswith(" of layers 1-2")
    assert [description["manifest"]["options"]["lora"][name] for name in ("first_layer", "last_layer")] == [1, 2]
