# SPDX-License-Identifier: Apache-2.0
"""What an adapter is worth beside the stored weights and beside the published ones, and `mebp merge --onto`: both are
what transformers and PEFT compute."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM

import mebp
from mebp.cli import main
from mebp.data import Dataset, load_dataset
from mebp.gguf.container import read_container
from mebp.inspect import inspect
from mebp.merging.served import AUTO, PUBLISHED, STORED, measure_served
from mebp.tokenizer import Tokenizer
from mebp.training.model_card import CARD
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from mebp.verification.reference import load_weights
from support import models
from support.llama_cpp import llama_cpp  # noqa: F401
from support.pipeline import make_bundle
from support.textmodel import make_text_bundle

TOLERANCE = 1e-4
TEXT = "Half an hour before sunset, the lamp is lit.\n" * 8


@dataclass(frozen=True)
class Case:
    """A bundle in 4 bits, and an adapter that was trained beside its weights or beside the published ones."""

    bundle: Path
    adapter: Path
    data: Path

    @property
    def source(self) -> Path:
        return self.bundle.parent / "source"

    @property
    def rows(self) -> Dataset:
        return load_dataset(self.data, Tokenizer(self.bundle), 32)

    def merge(self, out: Path, *options: object) -> int:
        given = ["merge", self.bundle, "--adapter", self.adapter, "-o", out, *options]
        return main([str(each) for each in given])


def make_case(folder: Path, trained_beside: str) -> Case:
    """Beside int4, the adapter learns around its errors. Beside the published weights, it knows nothing of them."""
    data = folder / "data.txt"
    data.write_text(TEXT)
    bundle = make_text_bundle(folder, weights="int4-sym")
    beside = bundle
    if trained_beside == PUBLISHED:
        beside = folder / "exact.mebp"
        mebp.compile(folder / "model.onnx", beside, weights="f32", precision="f32")
    mebp.train(beside, data, steps=120, lr=1e-2, adapter_out=folder / "adapter", progress=False)
    return Case(bundle, folder / "adapter", data)


@pytest.fixture(scope="module", params=[STORED, PUBLISHED])
def case(request, tmp_path_factory) -> tuple[str, Case]:
    """Beside which weights the adapter was trained, and what was made."""
    return request.param, make_case(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch) -> None:
    """Others' folders lie in the one that tests share."""
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def stored_case(tmp_path_factory) -> Case:
    return make_case(tmp_path_factory.mktemp("stored"), STORED)


def open_source(folder: Path) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(folder).float().eval()


def loss_of(model: torch.nn.Module, rows: Dataset) -> float:
    """By transformers' logits: the mean over all labels that count."""
    losses, counted = 0.0, 0
    for row in rows.rows:
        ids, labels = (torch.from_numpy(np.asarray(each, np.int64))[None] for each in (row.ids, row.labels))
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, :-1].double()
        losses += torch.nn.functional.cross_entropy(logits, labels[0, 1:], reduction="sum", ignore_index=-100).item()
        counted += int((labels[0, 1:] != -100).sum())
    return losses / counted


def test_the_choice_is_right_where_it_differs(case, tmp_path, show, capsys):
    beside, made = case
    found = measure_served(made.bundle, made.adapter, made.data)
    own = open_source(made.source)
    load_weights(own, mebp.Session(made.bundle).base_weights())
    expected = [
        loss_of(open_source(made.source), made.rows),
        loss_of(PeftModel.from_pretrained(open_source(made.source), made.adapter), made.rows),
        loss_of(own, made.rows),
        loss_of(PeftModel.from_pretrained(own, made.adapter), made.rows),
    ]
    losses = [found.published.base, found.published.adapted, found.stored.base, found.stored.adapted]
    assert losses == pytest.approx(expected, abs=TOLERANCE)
    assert found.better == beside and found.quantising == pytest.approx(expected[2] - expected[0], abs=TOLERANCE)
    assert abs(expected[1] - expected[3]) > 10 * TOLERANCE
    show(f"trained beside the {beside} weights: {expected[3]:.4f} beside the stored ones, {expected[1]:.4f} beside "
         "the published ones")  # fmt: skip
    written = {}
    for onto in (STORED, PUBLISHED, AUTO):
        result = mebp.merge(made.bundle, made.adapter, tmp_path / onto, onto=onto,
                            data=made.data if onto == AUTO else None)  # fmt: skip
        assert result.onto == (beside if onto == AUTO else onto)
        written[onto] = loss_of(open_source(tmp_path / onto), made.rows)
    assert written[STORED] == pytest.approx(expected[3], abs=TOLERANCE)
    assert written[PUBLISHED] == pytest.approx(expected[1], abs=TOLERANCE)
    assert written[AUTO] == min(written.values())
    capsys.readouterr()
    other = STORED if beside == PUBLISHED else PUBLISHED
    assert made.merge(tmp_path / "cli", "--data", made.data, "--onto", other) == 0
    said = capsys.readouterr().out.splitlines()
    gain = abs(found.stored.adapted - found.published.adapted)
    lower = f"beside the {beside} weights the adapter has the lower loss, by {gain:.4f}"
    assert said[-1] == f"{lower}: merge with --onto {beside}"
    assert made.merge(tmp_path / "cli-auto", "--data", made.data, "--onto", "auto") == 0
    said = capsys.readouterr().out
    assert f"--onto auto: {beside}, for these weights with the adapter have the lower loss\n" in said
    assert "merge with --onto" not in said
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([*written, "cli", "cli-auto"])


FAMILIES = {
    "gpt2": {},  # transposed, and a tied head
    "phi3": {},  # joined matrices
    "qwen2": {"lora": mebp.LoRA(rank=4, targets=["q_proj", "lm_head"])},  # a tied head that becomes its own
    "qwen3_moe": {"lora": mebp.LoRA(rank=3, targets=["experts.gate_up_proj", "experts.down_proj", "q_proj"])},
    "llama": {"adapter": mebp.PrivateLoRA(rank_down=8, rank_up=8, layers=range(1, 3))},  # and some layers alone
}


@pytest.mark.parametrize("family", FAMILIES)
def test_onto_published_is_what_peft_computes(tmp_path, family):
    model = models.build(family)
    models.save(model, tmp_path / "source")
    bundle = make_bundle(tmp_path / "source", tmp_path, seq_len=32, batch=2, **FAMILIES[family])
    session = mebp.Session(bundle)
    randomise_adapter(session, scale=2.0 if "adapter" in FAMILIES[family] else 0.05)
    session.save_adapter(tmp_path / "adapter")
    result = mebp.merge(bundle, tmp_path / "adapter", tmp_path / "merged", onto=PUBLISHED)
    assert result.changes and result.onto == PUBLISHED
    ids = models.token_ids(model, 2, 27)
    source = open_source(tmp_path / "source")
    with torch.no_grad():
        published = source(input_ids=ids).logits.numpy()
        expected = PeftModel.from_pretrained(source, tmp_path / "adapter")(input_ids=ids).logits.numpy()
        found = open_source(tmp_path / "merged")(input_ids=ids).logits.numpy()
    assert relative_error(expected, found) < TOLERANCE
    assert relative_error(published, found) > 100 * TOLERANCE  # the adapter changes something
    assert relative_error(session.logits(ids.numpy()), found) > 100 * TOLERANCE  # and so does int4
    names = {name: values.shape for name, values in load_file(tmp_path / "source" / "model.safetensors").items()}
    written = {name: values.shape for name, values in load_file(tmp_path / "merged" / "model.safetensors").items()}
    written.pop("lm_head.weight", None)
    names.pop("lm_head.weight", None)
    assert written == names or family == "qwen3_moe"
    assert [each.name for each in (mebp.tools.cache_folder()).glob(".served-*")] == []


def test_bfloat16_is_not_made_larger(tmp_path):
    model = models.build("llama", dtype=torch.bfloat16)
    models.save(model, tmp_path / "source")
    bundle = make_bundle(tmp_path / "source", tmp_path, seq_len=32)
    session = mebp.Session(bundle)
    session.save_adapter(tmp_path / "adapter")  # which changes nothing yet
    mebp.merge(bundle, tmp_path / "adapter", tmp_path / "merged", "bf16", onto=PUBLISHED)
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "merged").state_dict()
    assert all(torch.equal(again[name], values) for name, values in model.state_dict().items())


def test_llama_cpp_computes_the_same(tmp_path, llama_cpp):  # noqa: F811
    model = models.build("phi3")
    models.save(model, tmp_path / "source")
    bundle = make_bundle(tmp_path / "source", tmp_path, seq_len=32)
    session = mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(tmp_path / "adapter")
    mebp.merge(bundle, tmp_path / "adapter", tmp_path / "merged.gguf", onto=PUBLISHED)
    ids = np.arange(1, 28, dtype=np.int64)
    with torch.no_grad():
        peft = PeftModel.from_pretrained(open_source(tmp_path / "source"), tmp_path / "adapter")
        expected = peft(input_ids=torch.from_numpy(ids)[None]).logits[0].numpy()
    found = llama_cpp.logits(tmp_path / "merged.gguf", ids)
    assert np.abs(found - expected).max() < TOLERANCE
    assert np.abs(found - session.logits(ids[None])[0]).max() > 0.1


def test_a_gguf_file_has_its_losses(stored_case, tmp_path, capsys):
    file = tmp_path / "merged.gguf"
    found = measure_served(stored_case.bundle, stored_case.adapter, stored_case.data)
    capsys.readouterr()
    assert stored_case.merge(file, "--data", stored_case.data, "--onto", "published") == 0
    said = capsys.readouterr().out
    assert found.table().splitlines()[1] in said
    metadata = read_container(file).metadata
    losses = {key.removeprefix("mebp.loss."): value for key, value in metadata.items() if key.startswith("mebp.")}
    written = losses.pop("merged")
    assert losses == pytest.approx(found.numbers(), abs=1e-6)
    assert written == pytest.approx(found.published.adapted, abs=TOLERANCE)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["Modelfile", "merged.gguf"]
    mebp.merge(stored_case.bundle, stored_case.adapter, tmp_path / "unmeasured.gguf")
    assert not any(key.startswith("mebp.") for key in read_container(tmp_path / "unmeasured.gguf").metadata)


def no_room(*arguments: object) -> None:
    raise mebp.Error("no room; make some")


def test_the_cards_have_the_losses(stored_case, tmp_path, monkeypatch, capsys):
    adapter = shutil.copytree(stored_case.adapter, tmp_path / "adapter")
    before = (adapter / CARD).read_text().partition("\n\n<!-- losses")[0]
    made = Case(stored_case.bundle, adapter, stored_case.data)
    for name in ("once", "again"):
        assert made.merge(tmp_path / name, "--data", made.data) == 0
    card = (adapter / CARD).read_text()
    assert card.startswith(before.rstrip("\n")) and card.count("## Losses") == 1
    own = (tmp_path / "again" / CARD).read_text()
    for text in (card, own):
        assert (
            "In nats per token, on `data.txt`, with activations in f32." in text
            and "| merged onto stored, f32 |  | " in text
        )
        assert str(tmp_path) not in text.replace(before, "")
    monkeypatch.setattr("mebp.merging.cards.replaced_file", no_room)
    capsys.readouterr()
    assert made.merge(tmp_path / "full", "--data", made.data) == 0
    assert "note: the losses were not written down: no room; make some\n" in capsys.readouterr().out
    assert (adapter / CARD).read_text() == card
    monkeypatch.undo()
    (adapter / CARD).write_text("my own words\n")
    assert made.merge(tmp_path / "third", "--data", made.data) == 0
    assert (adapter / CARD).read_text() == "my own words\n"


class TestPublishedWeightsThatAreNotThere:
    @pytest.fixture(autouse=True)
    def _given(self, tmp_path_factory, tmp_path, capsys):
        self.folder, self.out, self.capsys = tmp_path_factory.mktemp("given"), tmp_path, capsys
        bundle = make_text_bundle(self.folder)
        session = mebp.Session(bundle)
        randomise_adapter(session)
        session.save_adapter(self.folder / "adapter")
        data = self.folder / "data.txt"
        data.write_text(TEXT)
        self.case = Case(bundle, self.folder / "adapter", data)
        self.file = self.case.source / "model.safetensors"

    def refusal(self, *options: object) -> str:
        for out in ("merged", "merged.gguf"):
            self.capsys.readouterr()
            assert self.case.merge(self.out / out, "--no-measure", "--onto", "published", *options) == 2
            (line,) = self.capsys.readouterr().err.splitlines()
            assert not list(self.out.iterdir())
        assert list(mebp.tools.cache_folder().glob(".served-*")) == []
        return line.removeprefix("mebp: ").replace(f"{self.folder}/", "")

    def change(self, **tensors: np.ndarray | None) -> None:
        found = {**load_file(self.file), **{name.replace("__", "."): values for name, values in tensors.items()}}
        save_file({name: values for name, values in found.items() if values is not None}, self.file, {"format": "pt"})

    def test_gone(self):
        moved = self.folder / "moved"
        self.case.source.rename(moved)
        stated = inspect(self.case.bundle)["model"]["name"].replace(f"{self.folder}/", "")
        gone = f"model.mebp: was made of '{stated}', which is not here as it was; --base MODEL names its place"
        assert self.refusal() == gone
        assert self.case.merge(self.out / "stored", "--data", self.case.data) == 0
        said = self.capsys.readouterr().out.replace(f"{self.folder}/", "")
        assert f"the published weights were not measured: {gone}\n" in said and "published weights, f32" not in said
        assert self.case.merge(self.out / "published", "--onto", "published", "--no-measure", "--base", moved) == 0

    def test_lacks_a_tensor(self):
        self.change(model__norm__weight=None)
        line = self.refusal()
        assert line.startswith("source: no tensor 'model.norm.weight', which its config.json asks for; ")
        assert line.endswith("; --base MODEL names another place of it")

    def test_has_one_of_another_shape(self):
        self.change(model__norm__weight=np.ones(95, np.float32))
        line = self.refusal()
        assert "model.safetensors: tensor 'model.norm.weight' is [95], config.json makes it [96]" in line
        assert line.endswith("; --base MODEL names another place of it")

    @pytest.mark.parametrize(
        ("fields", "line"),
        [
            ({"num_hidden_layers": 1}, "has no tensor 'model.layers.1.input_layernorm.weight', which model.mebp has"),
            (
                {"num_hidden_layers": 2, "intermediate_size": 224},
                "tensor 'model.layers.0.mlp.gate_proj.weight' is [224, 96], and [200, 96] in model.mebp",
            ),
        ],
    )
    def test_is_another_model(self, fields, line):
        models.save(models.build("llama", **fields), self.case.source)
        assert self.refusal() == f"source: {line}; --base MODEL names another place of it"

    def test_has_other_numbers(self):
        name = "model.layers.1.mlp.down_proj.weight"
        self.change(**{name.replace(".", "__"): 1.5 * load_file(self.file)[name]})
        assert self.refusal() == (
            f"{self.case.source}: its '{name}' is not what model.mebp was made of; --base MODEL names the published "
            "model, this one or another"
        ).replace(f"{self.folder}/", "")
        given = "--onto", "published", "--data", self.case.data, "--base", self.case.source
        assert self.case.merge(self.out / "merged", *given) == 0
        said = self.capsys.readouterr().out
        assert f"note: its '{name}' is not what {self.case.bundle} was made of: {self.case.source}\n" in said

    @pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
    def test_a_full_disk_leaves_nothing(self, monkeypatch):
        disk = self.folder / "disk"
        disk.mkdir()
        mounting = ["mount", "-t", "tmpfs", "-o", "size=300k,mode=700", "tmpfs", str(disk)]
        if subprocess.run(mounting, capture_output=True).returncode:
            pytest.skip("this machine refuses to mount a small file system")
        try:
            monkeypatch.setenv("MEBP_CACHE", str(disk))
            assert "a bundle of the published weights needs 1.2 MB here and " in self.refusal()
            assert not list(disk.iterdir())
            monkeypatch.undo()
            assert self.case.merge(disk / "out", "--no-measure", "--onto", "published") == 2
            assert "make room or choose another folder" in self.capsys.readouterr().err and not list(disk.iterdir())
        finally:
            subprocess.run(["umount", str(disk)], check=True)


def test_refusals(stored_case, tmp_path, capsys):
    def line(*options: object) -> str:
        capsys.readouterr()
        assert stored_case.merge(tmp_path / "out", *options) == 2
        return capsys.readouterr().err.strip()

    assert line("--onto", "auto", "--no-measure") == (
        "mebp: --onto auto measures, and --no-measure leaves that out; give --onto stored or published"
    )
    assert "--base names the model that has what" in line("--no-measure", "--base", stored_case.source)
    given = stored_case.bundle, stored_case.adapter, tmp_path / "out"
    with pytest.raises(mebp.Error, match="onto 'both' is not one of stored, published, auto"):
        mebp.merge(*given, onto="both")
    with pytest.raises(mebp.Error, match="data is what onto='auto' measures on; leave it out"):
        mebp.merge(*given, data=stored_case.data)
    assert not (tmp_path / "out").exists()


def test_auto_needs_the_published_weights(tmp_path):
    made = make_case(tmp_path, STORED)
    shutil.rmtree(made.source)
    with pytest.raises(mebp.Error, match="--onto auto compares with the published weights: .* is not here as it was"):
        mebp.merge(made.bundle, made.adapter, tmp_path / "out", onto=AUTO, data=made.data)
    assert not (tmp_path / "out").exists()
