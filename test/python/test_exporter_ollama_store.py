# SPDX-License-Identifier: Apache-2.0
"""Names of Ollama's models, and what may be wrong in its store."""

import json
from pathlib import Path

import pytest

from mebp.building.fingerprint import export_fingerprint
from mebp.errors import Error
from mebp.exporter import ollama_store
from mebp.exporter.finding import find_model
from mebp.exporter.naming import title
from mebp.exporter.ollama_store import Name, canonical
from support.gguf_models import decoder
from support.ollama_store import USUAL, OllamaStore


@pytest.fixture
def store(tmp_path, monkeypatch) -> OllamaStore:
    monkeypatch.setenv("OLLAMA_MODELS", f' "{tmp_path / "store"}" ')  # Ollama takes it in quotes, too
    return OllamaStore(tmp_path / "store")


def line(asked: str = "ollama:tiny") -> str:
    with pytest.raises(Error) as raised:
        find_model(asked)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "parts", "short"),
    [
        ("tiny", (*USUAL.split("/"), "tiny", "latest"), "tiny:latest"),
        ("smollm2:135m", (*USUAL.split("/"), "smollm2", "135m"), "smollm2:135m"),
        ("me/keeper", ("registry.ollama.ai", "me", "keeper", "latest"), "me/keeper:latest"),
        ("library/tiny", (*USUAL.split("/"), "tiny", "latest"), "tiny:latest"),
        ("hf.co/a/b-GGUF:Q4_K_M", ("hf.co", "a", "b-GGUF", "Q4_K_M"), "hf.co/a/b-GGUF:Q4_K_M"),
        ("host:80/library/x.y", ("host:80", "library", "x.y", "latest"), "host:80/library/x.y:latest"),
    ],
)
def test_a_name_has_up_to_four_parts(name, parts, short):
    assert Name.of(f"ollama:{name}") == parts and str(Name(*parts)) == short
    assert canonical(f"ollama:{name}") == f"ollama:{short}" and title(f"ollama:{short}") == short


@pytest.mark.parametrize(
    "name",
    ["", ":", "tiny:", ":x", "a/b/c/d", "../x", "a/../b", "..", ".x", "tiny:..", "a//b", "/a", "x@y", "a b", "é"],
)
def test_what_is_no_name_is_refused(store, name):
    asked = f"ollama:{name}"
    assert line(asked) == f"{asked}: is not the name of a model in Ollama; give ollama:NAME:TAG, as ollama list has it"
    assert canonical(asked) == asked


def test_the_blob_is_read_in_place(store):
    blob = store.put_model(decoder("llama").bytes())
    before = {file: file.stat().st_mtime_ns for file in store.folder.rglob("*")}
    found = find_model("ollama:tiny")
    assert (found.place, found.is_gguf, found.typed) == (blob, True, "ollama:tiny")
    assert (found.name, found.origin, found.note) == ("tiny:latest", "ollama:tiny:latest", None)
    assert {file: file.stat().st_mtime_ns for file in store.folder.rglob("*")} == before


def test_another_manifest_is_another_model(store):
    store.put_model(decoder("llama").bytes())
    same = [find_model(asked) for asked in ("ollama:tiny", "ollama:tiny:latest", "ollama:library/tiny")]
    store.put_model(decoder("llama", **{"llama.rope.freq_base": ("f32", 5e4)}).bytes())
    other = find_model("ollama:tiny")
    keys = [export_fingerprint(each, store.folder, {}) for each in (*same, other)]
    assert len({*keys[:3]}) == 1 and keys[3] != keys[0]


def test_where_the_store_is(tmp_path, monkeypatch):
    """A user's own one before that of Ollama's service, each by what it has."""
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(ollama_store, "_SERVICE", tmp_path / "service")
    assert line() == (
        f"ollama:tiny: is not in Ollama's store ({tmp_path}/home/.ollama/models or {tmp_path}/service); "
        "run ollama pull tiny, or set OLLAMA_MODELS"
    )
    content = decoder("llama").bytes()
    services = OllamaStore(tmp_path / "service").put_model(content)
    own = OllamaStore(tmp_path / "home" / ".ollama" / "models")
    assert find_model("ollama:tiny").place == services
    blob = own.put_model(content)
    assert find_model("ollama:tiny").place == blob
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "empty"))
    assert f"({tmp_path}/empty)" in line()


def test_a_path_that_exists_wins(store, tmp_path, monkeypatch):
    store.put_model(decoder("llama").bytes())
    monkeypatch.chdir(tmp_path)
    Path("ollama:tiny").mkdir()
    assert find_model("ollama:tiny").place == Path("ollama:tiny")


class TestRefusals:
    @pytest.fixture(autouse=True)
    def _given(self, store):
        self.store = store
        self.model = store.layer("model", decoder("llama").bytes())
        self.blob = store.blob(self.model["digest"])

    def put(self, *layers: object, **also: object) -> str:
        self.file = self.store.put(f"{USUAL}/tiny/latest", *layers, **also)
        return line()

    @pytest.mark.parametrize(
        "digest",
        ["sha256:../../../../etc/passwd", "sha256-" + "0" * 63, "sha256:" + "0" * 64 + "/..", "md5:" + "0" * 64,
         "../x", "", None, 3, ["sha256:" + "0" * 64], "sha256:" + "0" * 64 + "\n"],
    )  # fmt: skip
    def test_a_digest_that_is_none(self, digest):
        assert self.put({**self.model, "digest": digest}) == (
            f"ollama:tiny: its manifest names a file by what is no SHA-256 digest, {digest!r:.60}; run ollama pull tiny"
        )

    def test_a_blob_that_is_missing_or_short(self):
        short, size = self.blob.name[:19], self.model["size"]
        self.blob.write_bytes(self.blob.read_bytes()[:-1])
        told = f"ollama:tiny: its file {short} has {size - 1} bytes, and its manifest says {size}; run ollama pull tiny"
        assert self.put(self.model) == told
        assert self.put({**self.model, "size": None}).endswith(" and its manifest says None; run ollama pull tiny")
        self.blob.unlink()
        assert self.put(self.model) == (
            f"ollama:tiny: its file {short} is not in {self.blob.parent} (No such file or directory); "
            "run ollama pull tiny"
        )

    def test_more_than_a_model(self):
        assert self.put(self.model, self.store.layer("adapter", b"GGUF")) == (
            "ollama:tiny: is a model with an adapter, and only the model would be read; give the model that it was "
            "made FROM (ollama show --modelfile), or merge the adapter into it first"
        )
        assert self.put(self.model, self.model) == (
            "ollama:tiny: has its model in 2 files, and only one is read; join them in a GGUF file"
        )

    def test_tensor_by_tensor(self):
        tensors = [{**self.store.layer("tensor", b"x"), "name": "model.norm.weight"}]
        assert self.put(*tensors, self.store.layer("json", b"{}")) == (
            "ollama:tiny: is stored tensor by tensor (safetensors) and not as a GGUF file; give its Hugging Face folder"
        )

    @pytest.mark.parametrize("remote", [{"remote_host": "https://ollama.com:443"}, {"remote_model": "tiny:120b"}])
    def test_a_cloud_model(self, remote):
        cloud = "is a cloud model, whose weights are not on this machine; give one that ollama pull downloads"
        config = self.store.layer("config", json.dumps(remote).encode())
        assert self.put(config=config) == f"ollama:tiny: {cloud}"
        self.file.write_text(json.dumps({"layers": None, "config": config}))
        assert line() == f"ollama:tiny: {cloud}"
        assert line("ollama:other:120b-cloud") == f"ollama:other:120b-cloud: {cloud}"

    @pytest.mark.parametrize("config", [None, 3, {}, {"digest": "sha256:../x"}, {"digest": "sha256:" + "0" * 64}])
    def test_no_model(self, config):
        assert self.put(self.store.layer("license", b"x"), config=config) == (
            "ollama:tiny: its manifest names no model; run ollama pull tiny"
        )

    def test_no_manifest(self):
        file = self.store.put(f"{USUAL}/tiny/latest", self.model)
        file.write_text("{")
        assert line().startswith(f"{file}: is not JSON ") and line().endswith("; run ollama pull tiny")
        for layers in (3, {}, [3], [{}], [{"mediaType": 3}], [{"digest": "x"}]):
            file.write_text(json.dumps({"layers": layers}))
            assert line() == "ollama:tiny: its manifest has no list of layers; run ollama pull tiny"
        file.unlink()
        file.mkdir()
        assert line().startswith(f"{file}: ")

    def test_a_store_that_cannot_be_read(self, monkeypatch):
        def refuse(self):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "stat", refuse)
        with pytest.raises(
            Error, match="cannot be read .Permission denied.; let your user read it, or give OLLAMA_MOD"
        ):
            ollama_store.find("ollama:tiny")

    def test_what_is_no_gguf_file_has_the_users_name(self):
        from mebp.building import settings_of

        self.store.put_model(b"GGML" + bytes(100))
        with pytest.raises(Error) as raised, settings_of(find_model("ollama:tiny")):
            pass
        assert str(raised.value) == "ollama:tiny: is not a GGUF file; download it again"
