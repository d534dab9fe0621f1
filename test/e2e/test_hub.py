# SPDX-License-Identifier: Apache-2.0
"""A model on a hub, from its id to the adapter and back; a server on this machine plays the hub."""

import json
import shutil

import pytest
from safetensors.numpy import load_file

import mebp
from mebp.cli import main
from mebp.errors import Error
from mebp.inspect import inspect
from support import models
from support.textmodel import TEXT, make_tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source") / "tiny"
    models.save(models.build("llama", num_hidden_layers=1), folder)
    make_tokenizer(folder)
    return folder


@pytest.fixture
def hub(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    return hub


def another(model, folder):
    """Other weights, as a later commit may have."""
    shutil.copytree(model, folder)
    models.save(models.build("llama", seed=1, num_hidden_layers=1), folder)
    return folder


def test_a_run_goes_on_with_its_commit(hub, exported, model, tmp_path, monkeypatch, capsys):
    first = hub.commit("owner/name", model)
    data, out, state = tmp_path / "data.txt", tmp_path / "adapter", tmp_path / "state"
    data.write_text(TEXT)
    given = {"data": data, "state": state, "adapter_out": out, "seq_len": 32}
    mebp.train("owner/name@main", steps=1, **given)
    exact = f"owner/name@{first}"
    assert f"owner/name@main: commit {first}\n" in capsys.readouterr().out
    assert hub.resolved() == ["main"] and exported == [exact]
    settings = json.loads((out / "adapter_config.json").read_text())
    assert (settings["base_model_name_or_path"], settings["revision"]) == ("owner/name", first)
    card = (out / "README.md").read_text()
    assert f"| base model | `owner/name`, commit `{first}` |" in card and 'base_model: "owner/name"\n' in card
    assert f"`mebp train {exact} --data " in card and "AutoPeftModelForCausalLM" in card

    second = hub.commit("owner/name", another(model, tmp_path / "later"))
    hub.asked.clear()
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "empty"))  # so the bundle is made again
    for steps, asked in ((2, "owner/name@main"), (3, "owner/name"), (4, exact)):
        run = mebp.train(asked, steps=steps, resume=True, **given)
        assert run.session.steps == steps and inspect(run.session.path)["model"]["name"] == exact
        said = f"{asked}: commit {first}, as this run began\n"
        assert (said in capsys.readouterr().out) == (asked != exact)
    assert hub.resolved() == [] and exported == [exact, exact]

    # Another branch is another model, and a new run takes what is there now.
    hub.branches["owner/name"]["next"] = second
    with pytest.raises(Error, match=f"^{state}: "):
        mebp.train("owner/name@next", steps=5, resume=True, **given)
    run = mebp.train("owner/name", steps=1, overwrite=True, **given)
    assert inspect(run.session.path)["model"]["name"] == f"owner/name@{second}"
    assert hub.resolved() == ["next", "main"]


def test_nothing_is_fetched_because_a_file_names_it(hub, exported, model, tmp_path, capsys):
    commit = hub.commit("owner/name", model)
    data = tmp_path / "data.txt"
    data.write_text(TEXT)
    adapter = tmp_path / "adapter"
    bundle = mebp.train("owner/name", data, steps=1, adapter_out=adapter, seq_len=32, progress=False).session.path
    shutil.rmtree(tmp_path / "hub-cache")
    capsys.readouterr()
    hub.asked.clear()
    before = load_file(adapter / "adapter_model.safetensors")
    for command in (
        ["inspect", bundle],
        ["eval", bundle, "--data", data, "--adapter", adapter],
        ["generate", bundle, "--prompt", "The", "--adapter", adapter, "--max-new-tokens", "1"],
        ["train", bundle, "--data", data, "--adapter", adapter, "--steps", "1", "--adapter-out", tmp_path / "again"],
        ["verify", bundle, "--adapter", adapter, "--seq-len", "4"],
        ["merge", bundle, "--adapter", adapter, "-o", tmp_path / "merged", "--no-measure"],
        ["adapter", "convert", adapter, "--to", "mlx", "-o", tmp_path / "mlx"],
    ):
        assert main([*map(str, command)]) == 0, command
    # What this machine has trained has its bundle; of a stranger's adapter the base would have to be fetched.
    assert main(["adapter", "convert", str(adapter), "--to", "gguf", "-o", str(tmp_path / "own.gguf")]) == 0
    (adapter / "mebp.json").unlink()
    assert main(["adapter", "convert", str(adapter), "--to", "gguf", "-o", str(tmp_path / "x.gguf")]) == 2
    assert capsys.readouterr().err.endswith(f"--base owner/name@{commit}\n")
    assert hub.asked == [] and before.keys() == load_file(adapter / "adapter_model.safetensors").keys()
