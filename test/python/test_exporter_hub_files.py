# SPDX-License-Identifier: Apache-2.0
"""GGUF files of a hub, which a server on this machine plays: one is chosen by its quantisation, and fetched alone."""

import logging
from pathlib import Path

import pytest

from mebp.building.fingerprint import export_fingerprint
from mebp.errors import Error
from mebp.exporter.finding import find_model
from mebp.exporter.hub_files import HubFile, public_name
from mebp.exporter.naming import title
from mebp.exporter.offline import offline
from support.hub import Hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def put(hub: Hub, folder: Path, *files: str) -> str:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"GGUF" + name.encode())
    return hub.commit("owner/name", folder)


def fetched(hub: Hub) -> list[str]:
    return sorted({path.rpartition("/")[2] for path in hub.asked if "/resolve/" in path})


def line(asked: str) -> str:
    with pytest.raises(Error) as raised:
        find_model(asked)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "repository", "wanted"),
    [
        ("hub:owner/name", "owner/name", ""),
        ("hub:owner/na.me:Q4_K_M", "owner/na.me", "Q4_K_M"),
        ("hub:owner/name:UD-Q4_K_XL@refs/pr/3", "owner/name@refs/pr/3", "UD-Q4_K_XL"),
        (f"hub:owner/name:folder/Name 1-Q8_0.gguf@{COMMIT}", f"owner/name@{COMMIT}", "folder/Name 1-Q8_0.gguf"),
    ],
)
def test_a_name_has_a_quantisation_and_a_revision(name, repository, wanted):
    found = HubFile.of(name)
    assert str(found) == name and str(found.repository) == repository and found.wanted == wanted
    assert found.is_exact == name.endswith(COMMIT) and public_name(name) == repository.partition("@")[0]
    assert title(name) == name.partition("@")[0].removeprefix("hub:")


@pytest.mark.parametrize(
    "name", ["", "name", "name:Q8_0", "a/b/c:Q8_0", "a/b:", "a/b:Q8_0@", "a/b:../x", "a/b:/x", "a/b:x//y", "a/b@m:Q8_0",
             "../b:Q8_0"]
)  # fmt: skip
def test_what_is_no_name_is_refused(hub, name):
    assert HubFile.of(f"hub:{name}") is None and public_name(f"hub:{name}") is None
    told = "is not a GGUF file of the hub; give hub:OWNER/NAME:Q4_K_M, and @REVISION behind it"
    assert line(f"hub:{name}") == f"hub:{name}: {told}" and hub.asked == []


FILES = ("README.md", "config.json", "Name-Q4_K_M.gguf", "Name.q8_0.gguf", "mmproj-Name-F16.gguf", "imatrix.gguf",
         "Name-UD-Q5_K_M.gguf", "Name-Q5_K_M.gguf", "BF16/Name-BF16-00001-of-00002.gguf",
         "BF16/Name-BF16-00002-of-00002.gguf", "Name-F32-00001-of-00001.gguf")  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "file"),
    [
        ("Q4_K_M", "Name-Q4_K_M.gguf"),
        ("q4_k_m", "Name-Q4_K_M.gguf"),
        ("Q8_0", "Name.q8_0.gguf"),
        ("UD-Q5_K_M", "Name-UD-Q5_K_M.gguf"),
        ("Name-Q5_K_M", "Name-Q5_K_M.gguf"),
        ("name-q5_k_m.GGUF", "Name-Q5_K_M.gguf"),
        ("F32", "Name-F32-00001-of-00001.gguf"),
    ],
)
def test_one_file_is_chosen_and_fetched(hub, tmp_path, wanted, file):
    commit = put(hub, tmp_path / "files", *FILES)
    asked = f"hub:owner/name:{wanted}"
    found = find_model(asked)
    assert found.place.name == file and found.is_gguf and found.place.read_bytes() == b"GGUF" + file.encode()
    assert (found.name, found.origin) == (f"owner/name:{wanted}", f"{asked}@{commit}")
    assert found.note == f"{asked}: commit {commit}" and fetched(hub) == sorted(["config.json", file])


def test_its_commit_and_what_is_here_need_no_hub(hub, tmp_path):
    commit = put(hub, tmp_path / "files", *FILES)
    exact = find_model(f"hub:owner/name:Q8_0@{commit}")
    assert exact.note is None and hub.resolved() == []
    moving = find_model("hub:owner/name:Q8_0")
    hub.asked.clear()
    with offline():
        found = [find_model(f"hub:owner/name:Q8_0{revision}") for revision in ("", f"@{commit}")]
        assert hub.asked == [] and {each.place for each in found} == {exact.place}
        assert line("hub:owner/name:Q4_K_M") == (
            "hub:owner/name:Q4_K_M: has no GGUF file of Q4_K_M; give hub:owner/name:NAME with q8_0"
        )
    assert len({export_fingerprint(each, tmp_path, {}) for each in (exact, moving, *found)}) == 1


class TestRefusals:
    @pytest.fixture(autouse=True)
    def _given(self, hub, tmp_path):
        self.hub, self.folder = hub, tmp_path / "files"

    def line(self, asked: str, *files: str) -> str:
        put(self.hub, self.folder, *files)
        found = line(asked)
        assert not any("gguf" in name for name in fetched(self.hub))
        return found

    def test_none_of_that_quantisation(self):
        assert self.line("hub:owner/name:Q4_0", *FILES) == (
            "hub:owner/name:Q4_0: has no GGUF file of Q4_0; give hub:owner/name:NAME with BF16, F32, Q4_K_M, "
            "Name-Q5_K_M, UD-Q5_K_M or q8_0"
        )

    def test_several(self):
        assert self.line("hub:owner/name:Q5_K_M@main", *FILES) == (
            "hub:owner/name:Q5_K_M@main: has 2 GGUF files of Q5_K_M; give hub:owner/name:NAME with Name-Q5_K_M or "
            "UD-Q5_K_M"
        )
        files = [f"Other-{index}.gguf" for index in range(20)]
        told = self.line("hub:owner/name", *files)
        assert told.startswith("hub:owner/name: has 26 GGUF files; give hub:owner/name:NAME with BF16, F32, ")
        assert told.endswith(" or 14 more")

    def test_pieces(self):
        assert self.line("hub:owner/name:BF16", *FILES) == (
            "hub:owner/name:BF16: is in 2 pieces, and one file is read; download them, join them with llama-gguf-split "
            "--merge Name-BF16-00001-of-00002.gguf NEW.gguf, and give the new file"
        )

    def test_no_gguf_file(self):
        told = "the repository has no GGUF file; give OWNER/NAME, if it has a model for transformers"
        assert self.line("hub:owner/name:Q8_0", "model.safetensors") == f"hub:owner/name:Q8_0: {told}"

    def test_no_repository(self):
        told = self.line("hub:owner/other:Q8_0", "Name-Q8_0.gguf")
        assert told.startswith("hub:owner/other:Q8_0: the hub did not give it ")


def test_a_repository_of_one_file_needs_no_more(hub, tmp_path, monkeypatch, caplog):
    commit = put(hub, tmp_path / "files", "Name-Q8_0.gguf")
    monkeypatch.setattr(logging.getLogger("huggingface_hub"), "propagate", True)
    find_model("hub:owner/name")
    assert "No files matched" not in caplog.text  # of config.json
    for asked in ("hub:owner/name", "owner/name", f"owner/name@{commit}"):
        found = find_model(asked)
        assert found.place.name == "Name-Q8_0.gguf" and found.origin == f"hub:owner/name@{commit}"


def test_a_repository_for_transformers_is_taken_so(hub, tmp_path):
    commit = put(hub, tmp_path / "files", "config.json", "model.safetensors")
    found = find_model("hub:owner/name")
    assert found.place.is_dir() and (found.origin, found.typed) == (f"owner/name@{commit}", None)
