# SPDX-License-Identifier: Apache-2.0
"""Models on a hub, which a server on this machine plays: revisions are resolved once, and files fetched by commit."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import mebp
from mebp.adapters.conversion import convert_adapter
from mebp.building.fingerprint import export_fingerprint
from mebp.errors import Error
from mebp.exporter.finding import find_model
from support.hub import Hub

CONFIG = {"model_type": "llama", "num_attention_heads": 2, "num_key_value_heads": 2}


def put(hub: Hub, folder: Path, id: str, branch: str = "main") -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, "made": folder.name}))
    save_file({"x": np.zeros(3, "f4")}, folder / "model.safetensors")
    return hub.commit(id, folder, branch)


def test_a_branch_is_resolved_to_its_commit_once(hub, tmp_path):
    first = put(hub, tmp_path / "first", "owner/name")
    for asked, revision in (("owner/name", "main"), ("owner/name@main", "main")):
        hub.asked.clear()
        found = find_model(asked)
        assert (found.name, found.origin) == ("owner/name", f"owner/name@{first}")
        assert found.note == f"{asked}: commit {first}" and hub.resolved() == [revision]
        assert json.loads((found.place / "config.json").read_text())["made"] == "first"
        assert not any("/resolve/main/" in path for path in hub.asked)
    second = put(hub, tmp_path / "second", "owner/name")
    hub.asked.clear()
    exact = find_model(f"owner/name@{first}")  # the branch has moved on, and the commit is the same
    assert exact.note is None and hub.resolved() == []
    assert json.loads((exact.place / "config.json").read_text())["made"] == "first"
    moved = find_model("owner/name@main")
    assert moved.origin == f"owner/name@{second}"
    keys = [export_fingerprint(each, each.place, {}) for each in (found, exact, moved)]
    assert keys[0] == keys[1] != keys[2]


def test_the_commit_is_in_the_fingerprint_where_files_are_the_same(hub, tmp_path):
    put(hub, tmp_path / "same", "owner/name")
    hub.models["owner/name"]["b" * 40] = tmp_path / "same"
    hub.branches["owner/name"]["next"] = "b" * 40
    found = [find_model(f"owner/name@{branch}") for branch in ("main", "next")]
    assert len({export_fingerprint(each, each.place, {}) for each in found}) == 2


def test_a_path_that_exists_wins(hub, tmp_path, monkeypatch):
    put(hub, tmp_path / "here", "owner/name")
    monkeypatch.chdir(tmp_path)
    Path("owner/name@main").mkdir(parents=True)
    assert find_model("owner/name@main").place == Path("owner/name@main") and hub.asked == []
    Path("owner/name").mkdir()
    for model, path in (("owner/name@v1", "owner/name"), ("./here@main", "./here"), (f"{tmp_path}/here@x", None)):
        with pytest.raises(Error, match=re.escape(f"{path or model[:-2]} is a path, and only hub ids have revisions")):
            find_model(model)
    assert hub.asked == []


def test_a_revision_that_is_not_there(hub, tmp_path):
    put(hub, tmp_path / "here", "owner/name")
    with pytest.raises(
        Error, match="^owner/name@none: not a folder, and the hub did not give it .*check the name"
    ) as raised:
        find_model("owner/name@none")
    assert "\n" not in str(raised.value)


def test_an_export_says_the_commit(hub, tmp_path, capsys):
    import onnx

    put(hub, tmp_path / "model", "owner/name")
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "vocab_size": 32, "head_dim": 8}
    (tmp_path / "model" / "config.json").write_text(json.dumps({**CONFIG, **shape}))
    commit = hub.branches["owner/name"]["main"]
    mebp.export("owner/name@main", tmp_path / "out" / "model.onnx", seq_len=8, shape_only=True)
    assert f"note: owner/name@main: commit {commit}\n" in capsys.readouterr().err
    notes = {
        each.key: each.value
        for each in onnx.load(tmp_path / "out" / "model.onnx", load_external_data=False).metadata_props
    }
    assert notes["mebp.model"] == f"owner/name@{commit}" and hub.resolved() == ["main"]


def adapter(folder: Path, **settings: object) -> Path:
    """PEFT's, of one layer whose rows llama.cpp has in another order."""
    folder.mkdir()
    settings = {"peft_type": "LORA", "lora_alpha": 4, "r": 2, **settings}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
    save_file({name.format("A"): np.zeros((2, 8), "f4"), name.format("B"): np.zeros((8, 2), "f4")},
              folder / "adapter_model.safetensors")  # fmt: skip
    return folder


@pytest.mark.parametrize(
    ("settings", "said", "base"),
    [
        ({"base_model_name_or_path": "owner/name"}, "owner/name", "owner/name"),
        ({"base_model_name_or_path": "owner/name", "revision": "main"}, "owner/name@main", "owner/name@main"),
        ({"base_model_name_or_path": "models/none/x"}, "models/none/x", "MODEL"),
        ({"base_model_name_or_path": "/models/none"}, "/models/none", "MODEL"),
        ({"base_model_name_or_path": "; rm -rf x"}, "; rm -rf x", "MODEL"),
    ],
)
def test_what_an_adapter_names_is_not_fetched(hub, tmp_path, settings, said, base):
    put(hub, tmp_path / "model", "owner/name")
    given, out = adapter(tmp_path / "an adapter", **settings), tmp_path / "out.gguf"
    with pytest.raises(Error) as raised:
        convert_adapter(given, out, "gguf")
    assert str(raised.value) == (
        f"{given}: its base model '{said}' is not on this machine, and nothing is fetched because an adapter names it; "
        f"to use that model, run mebp adapter convert '{given}' --to gguf -o {out} --base {base}"
    )
    assert hub.asked == [] and not out.exists()


def test_an_adapter_is_not_taken_for_a_model(hub, tmp_path):
    put(hub, tmp_path / "model", "owner/name")
    given = adapter(tmp_path / "adapter", base_model_name_or_path="owner/name")
    with pytest.raises(Error) as raised:
        find_model(given)
    assert str(raised.value) == (
        f"{given}: is an adapter, and no model is fetched because an adapter names it; give its base model; mebp "
        "train takes the adapter with --adapter"
    )
    (given / "adapters.safetensors").touch()
    with pytest.raises(Error) as raised:
        find_model(given)
    assert str(raised.value) == (
        f"{given}: is an adapter, and no model is fetched because an adapter names it; give its base model; mebp "
        "train takes it with --adapter once mebp adapter convert has made it PEFT's"
    )
    assert hub.asked == []


def test_what_the_user_names_is_fetched(hub, tmp_path, capsys):
    commit = put(hub, tmp_path / "model", "owner/name")
    given = adapter(tmp_path / "adapter", base_model_name_or_path="owner/other")
    convert_adapter(given, tmp_path / "out.gguf", "gguf", base="owner/name@main")
    assert capsys.readouterr().out == f"owner/name@main: commit {commit}\n" and hub.resolved() == ["main"]
    hub.asked.clear()
    # It is here now, so an adapter of it may be read.
    again = adapter(tmp_path / "again", base_model_name_or_path="owner/name", revision=commit)
    convert_adapter(again, tmp_path / "again.gguf", "gguf")
    assert hub.asked == []


def test_a_revision_comes_back(hub, tmp_path):
    given = adapter(tmp_path / "adapter", base_model_name_or_path="owner/name", revision="v1")
    convert_adapter(given, tmp_path / "mlx", "mlx")
    assert json.loads((tmp_path / "mlx" / "adapter_config.json").read_text())["model"] == "owner/name"
    convert_adapter(given, tmp_path / "peft", "peft")
    written = json.loads((tmp_path / "peft" / "adapter_config.json").read_text())
    assert (written["base_model_name_or_path"], written["revision"]) == ("owner/name", "v1")
    assert hub.asked == []


@pytest.mark.parametrize("form", ["mlx", "peft"])
def test_a_converted_adapter_says_nothing_of_a_home_folder(tmp_path, monkeypatch, form):
    monkeypatch.setenv("HOME", str(tmp_path / "somebody"))
    (tmp_path / "somebody" / "base").mkdir(parents=True)
    base = tmp_path / "somebody" / "base"
    (base / "config.json").write_text(json.dumps(CONFIG))
    stated = adapter(tmp_path / "adapter", base_model_name_or_path=str(base))
    convert_adapter(stated, tmp_path / "stated", form)
    convert_adapter(stated, tmp_path / "asked", form, base=base)
    for folder in ("stated", "asked"):
        written = (tmp_path / folder / "adapter_config.json").read_text()
        assert "./base" in written and "somebody" not in written


@pytest.mark.parametrize("name", [["x"], {"a": 1}, 3, "a\nb", "a\0b", "\x1b[2J"])
def test_a_base_that_is_no_name(tmp_path, name):
    given = adapter(tmp_path / "adapter", base_model_name_or_path=name)
    with pytest.raises(Error) as raised:
        convert_adapter(given, tmp_path / "out", "mlx")
    assert str(raised.value) == (
        f"{given}/adapter_config.json: base_model_name_or_path is {name!r}, which is not a name or a folder; correct it"
    )
