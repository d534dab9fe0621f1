# SPDX-License-Identifier: Apache-2.0
"""`mebp verify`: what it agrees with, what it finds, what it refuses."""

import json
import re
import shutil
import subprocess
import sys
import zlib

import pytest

import mebp
from mebp.cli import main
from mebp.verification import model as verification_model
from mebp.verification.inputs import randomise_adapter
from support import models
from support.commands import refusal_in_process
from support.network import without_network
from support.pipeline import make_bundle


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A bundle by its precision, f32 or bf16."""
    source = models.save(models.build("qwen2"), tmp_path_factory.mktemp("source"))
    bundles = {
        precision: make_bundle(source, tmp_path_factory.mktemp(precision), seq_len=24, batch=2, precision=precision)
        for precision in ("f32", "bf16")
    }
    return source, bundles


def refusal(capsys, *arguments: object) -> str:
    return refusal_in_process(capsys, "verify", *arguments)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_a_bundle_agrees(made, capsys, precision):
    source, bundles = made
    assert main(["verify", str(bundles[precision])]) == 0
    text = capsys.readouterr().out
    assert text.startswith("42 gradients, relative to float64") and f"torch in {precision}" in text
    assert text.splitlines()[-1].startswith("agrees") and ("--precision f32" in text) == (precision == "bf16")
    assert main(["verify", str(bundles[precision]), "--reference", str(source), "--seq-len", "13", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agrees"] and found["beyond"] == [] and found["precision"] == precision
    assert len(found["bundle"]["gradients"]) == 42 and found["bundle"]["loss"] < 1e-2


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_a_given_adapter_is_taken(made, tmp_path, precision):
    bundle = made[1][precision]
    session = mebp.Session(bundle)
    session.save_adapter(tmp_path / "new")
    randomise_adapter(session, scale=0.5)
    session.save_adapter(tmp_path / "far")
    new, far = (mebp.verify(bundle, adapter=tmp_path / name, seq_len=9) for name in ("new", "far"))
    assert new.agrees and far.agrees, (new.beyond, far.beyond)
    # B is zero in the one, and with it every gradient of A, exactly.
    zeros = {key for key, error in new.bundle.gradients.items() if error == 0}
    assert zeros == {key for key in new.bundle.gradients if "lora_A" in key}
    assert all(far.bundle.gradients.values())


@pytest.mark.parametrize("family, targets", [("gpt2", None), ("gemma3_text", None), ("llama", ["q_proj", "down_proj"])])
def test_other_families_agree(tmp_path, family, targets):
    source = models.save(models.build(family), tmp_path / "source")
    options = {"lora": mebp.LoRA(targets=targets)} if targets else {}
    bundle = make_bundle(source, tmp_path, seq_len=20, **options)
    found = mebp.verify(bundle)
    assert found.agrees, found.beyond


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_projected_gradients_agree(tmp_path, capsys, precision):
    source = models.save(models.build("llama"), tmp_path / "source")
    options = {"weights": "f32", "precision": precision, "train": "full", "optimizer": "galore", "galore_rank": 8}
    bundle = make_bundle(source, tmp_path, seq_len=24, batch=2, train_targets=["*proj", "*norm*"], **options)
    assert main(["verify", str(bundle)]) == 0
    text = capsys.readouterr().out
    found = mebp.verify(bundle)
    total = len(found.bundle.gradients)
    assert 0 < found.projected == sum("proj" in key for key in found.bundle.gradients) < total
    assert text.startswith(f"{total} gradients, {found.projected} in their subspaces, relative to float64")
    assert text.splitlines()[-1].startswith("agrees")


def test_a_model_that_computes_something_else_is_found(made, tmp_path, capsys):
    source, bundles = made
    config = json.loads((source / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-2}))
    assert main(["verify", str(bundles["f32"]), "--reference", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[4] == "disagrees:" and re.fullmatch(r"  .*: .* off, at most .*", lines[5])
    assert lines[-1] == "  and 35 more"
    assert main(["verify", str(bundles["f32"]), "--reference", str(tmp_path), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["agrees"] and len(found["beyond"]) == 43
    assert all(one["error"] > one["limit"] for one in found["beyond"])


def test_another_model_is_refused(made, tmp_path, capsys):
    bundle = made[1]["f32"]
    models.build("qwen2", intermediate_size=210).config.save_pretrained(tmp_path / "wide")
    line = refusal(capsys, bundle, "--reference", tmp_path / "wide")
    assert "mlp" in line and "[200, 96] in the bundle, [210, 96] in the reference" in line
    models.build("llama").config.save_pretrained(tmp_path / "llama")
    assert "in the bundle but not in the reference" in refusal(capsys, bundle, "--reference", tmp_path / "llama")
    models.build("qwen2", num_hidden_layers=4).config.save_pretrained(tmp_path / "deep")
    assert "in the reference but not in the bundle" in refusal(capsys, bundle, "--reference", tmp_path / "deep")
    untied = make_bundle(models.build("llama"), tmp_path, seq_len=8)
    capsys.readouterr()
    models.build("llama", tie_word_embeddings=True).config.save_pretrained(tmp_path / "tied")
    assert "tied to another weight in the reference" in refusal(capsys, untied, "--reference", tmp_path / "tied")
    assert "no such folder; give a model folder or a hub id" in refusal(
        capsys, bundle, "--reference", tmp_path / "none" / "such" / "folder"
    )


KERNEL = "somebody/kernel"


def test_no_kernel_is_fetched_and_nothing_else(made, tmp_path, capsys, monkeypatch):
    bundle = shutil.copytree(made[1]["f32"], tmp_path / "model.mebp")
    file = bundle / "tokenizer" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "_attn_implementation": KERNEL, "use_kernels": True}))
    tried = without_network(monkeypatch)
    monkeypatch.setattr(
        "transformers.modeling_utils.lazy_import_flash_attention", lambda *name, **_: tried.append(name)
    )
    assert main(["verify", str(bundle)]) == 0
    found = capsys.readouterr()
    assert found.out.splitlines()[-1].startswith("agrees") and tried == []
    why = "for they choose code or what is fetched, and not the model's shape"
    assert found.err == f"note: {file}: _attn_implementation, use_kernels are ignored, {why}\n"


def test_a_reference_comes_from_the_cache_alone(made, tmp_path, capsys, monkeypatch):
    source, bundles = made
    tried = without_network(monkeypatch)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert refusal(capsys, bundles["f32"], "--reference", "somebody/model") == (
        "mebp: --reference somebody/model: is not a folder, and not in the hub's cache; verify fetches nothing, so "
        "download its config.json first\n"
    )
    repository, commit = tmp_path / "models--somebody--model", "0" * 40
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    (repository / "blobs").mkdir()
    shutil.copy(source / "config.json", repository / "blobs" / "0123")
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to("../../blobs/0123")
    assert main(["verify", str(bundles["f32"]), "--reference", "somebody/model", "--seq-len", "5"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("agrees") and tried == []


def test_what_cannot_be_compared_is_refused(made, tmp_path, capsys, monkeypatch):
    bundle = made[1]["f32"]
    assert "--seq-len is 1; give a whole number of at least 2" in refusal(capsys, bundle, "--seq-len", 1)
    assert "25 tokens are more than the 24" in refusal(capsys, bundle, "--seq-len", 25)
    assert "no bundle at" in refusal(capsys, tmp_path / "none.mebp")
    (bundle / "tokenizer" / "config.json").rename(tmp_path / "config.json")
    try:
        assert "name the model with --reference" in refusal(capsys, bundle)
    finally:
        (tmp_path / "config.json").rename(bundle / "tokenizer" / "config.json")
    monkeypatch.setattr(verification_model, "free_bytes", lambda: 1e6)
    line = refusal(capsys, bundle)
    assert re.search(r"float64 needs at least \d MB, and 1 MB are free; give a shorter --seq-len", line)


@pytest.mark.parametrize("command, missing", [("verify", "peft"), ("export", "torch")])
def test_a_missing_package_is_named_with_what_brings_it(made, tmp_path, command, missing):
    source, bundles = made
    arguments = {"verify": [bundles["f32"]], "export": [source, "-o", tmp_path / "model.onnx"]}[command]
    code = "import sys; sys.modules[sys.argv.pop(1)] = None; from mebp.cli import main; sys.exit(main())"
    run = subprocess.run(
        [sys.executable, "-c", code, missing, command, *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 2 and run.stdout == ""
    assert re.fullmatch(
        rf"mebp: {command} needs {missing} \(.+\); install it with: pip install 'mebp\[{command}\]'\n", run.stderr
    )


def test_files_are_compared_with_the_checksum(made, capsys, tmp_path):
    bundle = tmp_path / "copy.mebp"
    shutil.copytree(made[1]["bf16"], bundle)
    assert main(["verify", str(bundle), "--files"]) == 0
    size = (bundle / "weights.bin").stat().st_size
    text = capsys.readouterr().out
    assert text == f"{bundle}: all files are as mebpc wrote them, {size / 1e6:.2f} MB of weights\n"
    assert main(["verify", str(bundle), "--files", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"weights_bytes": size}
    with (bundle / "weights.bin").open("r+b") as file:
        file.write(bytes([file.read(1)[0] ^ 1]))
    mebp.Session(bundle, forward_only=True)  # opening does not read them
    assert "weights.bin: checksum does not match; the file is damaged" in refusal(capsys, bundle, "--files")
    with pytest.raises(mebp.Error, match="checksum does not match"):
        mebp.verify_files(bundle)


def test_files_of_the_tokenizer_are_compared_with_their_checksums(smollm2, capsys, tmp_path):
    manifest = json.loads((smollm2.bundle / "manifest.json").read_text())
    listed = {path.relative_to(smollm2.bundle / "tokenizer").as_posix(): zlib.crc32(path.read_bytes())
              for path in (smollm2.bundle / "tokenizer").rglob("*") if path.is_file()}  # fmt: skip
    assert manifest["tokenizer_crc32"] == listed and {"tokenizer.json", "chat.json"} <= listed.keys()
    assert manifest["tokenizer"] == sorted(name for name in listed if "/" not in name)
    bundle = tmp_path / "copy.mebp"
    shutil.copytree(smollm2.bundle, bundle)
    for name in listed:
        file = bundle / "tokenizer" / name
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        wrong = f"{file}: checksum does not match; the file was changed, compile the bundle again"
        assert wrong in refusal(capsys, bundle, "--files")
        file.write_bytes(content)
    assert mebp.verify_files(bundle) > 50e6


def test_files_are_compared_alone(made, capsys):
    line = refusal(capsys, made[1]["f32"], "--files", "--seq-len", 3)
    assert "--seq-len is about gradients, which --files leaves alone; leave it out" in line


def test_weights_of_many_batches_have_one_checksum(smollm2):
    assert mebp.verify_files(smollm2.bundle) > 50e6
