# SPDX-License-Identifier: Apache-2.0
"""Links in somebody's folder: which count, and that no other brings a file of the reader's into what is written."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import mebp
from mebp.adapters import mlx, peft
from mebp.adapters.base import AskedBase
from mebp.building.fingerprint import _settings as settings_of
from mebp.building.length import model_limit
from mebp.data.chat_template import ChatTemplate
from mebp.exporter.source import resolve
from mebp.exporter.tokenizer import TOKENIZER_FILES, copy_tokenizer
from mebp.exporter.weights import place
from mebp.files import own_file
from mebp.gguf.model import ModelWriter
from mebp.gguf.vocabulary import chat_templates, vocabulary
from mebp.model_folder import model_config
from mebp.tokenizer import Tokenizer
from support.textmodel import make_tokenizer

SECRET = "of whoever reads the folder"


def refused(file: Path, target: Path, folder: Path | None = None) -> str:
    return (
        f"{file}: is a link to {target}, which is not a file in {folder or file.parent}; put a copy of that file there "
        "instead of the link, if you want it to be used"
    )


def linked(file: Path, content: str = SECRET) -> Path:
    """Makes `file` a link to a secret beside its folder, which is returned."""
    secret = file.parent.parent / "secret"
    secret.write_text(content)
    file.unlink(missing_ok=True)
    file.symlink_to("../secret")
    return secret


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


def hub_cache(root: Path) -> tuple[Path, Path]:
    """A snapshot's folder and its blobs, as huggingface_hub lays them."""
    repository = root / "hub" / "models--somebody--model"
    snapshot, blobs = repository / "snapshots" / ("0" * 40), repository / "blobs"
    snapshot.mkdir(parents=True), blobs.mkdir()
    return snapshot, blobs


def test_files_and_links_that_stay_inside_count(folder: Path, tmp_path: Path) -> None:
    (folder / "files").mkdir()
    (folder / "files" / "real.txt").write_text("real")
    (folder / "plain.txt").write_text("plain")
    (folder / "first.txt").symlink_to("second.txt")
    (folder / "second.txt").symlink_to("files/real.txt")
    (folder / "whole.txt").symlink_to(folder / "files" / "real.txt")
    (tmp_path / "named").symlink_to(folder)
    for root in (folder, tmp_path / "named"):
        for name in ("plain.txt", "first.txt", "second.txt", "whole.txt", "missing.txt"):
            assert own_file(root / name) == root / name


def test_links_into_the_blobs_of_the_same_cache_count(tmp_path: Path) -> None:
    snapshot, blobs = hub_cache(tmp_path)
    (blobs / "a").write_text("a")
    (snapshot / "config.json").symlink_to("../../blobs/a")
    # Large files: one store for the whole cache, which the repository's blob links to.
    name = "ab" + "c" * 62
    shared = tmp_path / "hub" / "blobs" / "ab" / name
    shared.parent.mkdir(parents=True)
    shared.write_text("shared")
    (blobs / "b").symlink_to(f"../../blobs/ab/{name}")
    (snapshot / "tokenizer.json").symlink_to("../../blobs/b")
    (snapshot / "sub").mkdir()
    (snapshot / "sub" / "config.json").symlink_to("../../../blobs/a")
    (tmp_path / "named").symlink_to(snapshot)
    for root in (snapshot, tmp_path / "named"):
        for file in ("config.json", "tokenizer.json", "sub/config.json"):
            assert own_file(root / file) == root / file


@pytest.mark.parametrize(
    "make",
    [
        lambda snapshot, blobs: (blobs / "a").symlink_to(blobs.parents[2] / "secret"),  # a blob that leads on
        lambda snapshot, blobs: (blobs.rmdir(), blobs.symlink_to(blobs.parents[2] / "other")),  # blobs/ itself does
        lambda snapshot, blobs: (snapshot / "f").symlink_to(blobs.parents[1] / "models--x--y" / "blobs" / "a"),
        lambda snapshot, blobs: (snapshot / "f").symlink_to(blobs.parents[1] / "blobs" / "token"),
        lambda snapshot, blobs: (snapshot / "f").symlink_to(blobs.parent / "refs" / "a"),
        lambda snapshot, blobs: (snapshot / "f").symlink_to(blobs.parent / "snapshots" / "1" / "a"),
    ],
)
def test_a_cache_s_links_that_lead_elsewhere(make: Callable, tmp_path: Path) -> None:
    snapshot, blobs = hub_cache(tmp_path)
    hub, repository = tmp_path / "hub", snapshot.parents[1]
    (tmp_path / "secret").write_text(SECRET)
    places = [hub / "models--x--y" / "blobs", repository / "refs", repository / "snapshots" / "1", tmp_path / "other"]
    for there in places:
        there.mkdir(parents=True)
        (there / "a").write_text(SECRET)
    (hub / "blobs").mkdir()
    (hub / "blobs" / "token").write_text(SECRET)
    make(snapshot, blobs)
    file = snapshot / "f"
    if not file.is_symlink():
        file.symlink_to("../../blobs/a")
    with pytest.raises(mebp.Error) as caught:
        own_file(file)
    assert str(caught.value) == refused(file, file.resolve())


@pytest.mark.parametrize("name", ["snapshots", "models--somebody--model"])
def test_a_folder_that_is_only_called_so(name: str, tmp_path: Path) -> None:
    """blobs/ counts beside snapshots/ of a repository alone."""
    folder = tmp_path / name / "model"
    folder.mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "a").write_text(SECRET)
    (folder / "f").symlink_to(tmp_path / "blobs" / "a")
    with pytest.raises(mebp.Error, match="is a link to"):
        own_file(folder / "f")


def test_links_to_what_is_no_file(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(folder / "pipe")
    targets = {"gone": folder / "nothing", "tree": folder, "queue": folder / "pipe", "zero": Path("/dev/zero")}
    for name, target in targets.items():
        (folder / name).symlink_to(target)
    (folder / "loop").symlink_to("loop")
    for name in (*targets, "loop"):
        with pytest.raises(mebp.Error, match=r"is a link to .*, which is not a file in ") as caught:
            own_file(folder / name)
        assert str(caught.value).startswith(f"{folder / name}: is a link to {targets.get(name, folder / name)}, ")


@pytest.mark.parametrize("name", [*TOKENIZER_FILES, "chat_template.jinja", "additional_chat_templates/tool_use.jinja"])
def test_an_export_copies_nothing_that_lies_elsewhere(name: str, folder: Path, tmp_path: Path) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    secret = linked(folder / name)
    with pytest.raises(mebp.Error) as caught:
        copy_tokenizer(folder, tmp_path / "copy", "model")
    assert str(caught.value) == refused(folder / name, secret)
    copied = tmp_path / "copy" / name
    assert not copied.exists()


def test_an_export_copies_a_snapshot_of_the_cache(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    snapshot, blobs = hub_cache(tmp_path)
    (blobs / "a").write_text("words")
    (snapshot / "vocab.txt").symlink_to("../../blobs/a")
    copy_tokenizer(snapshot, tmp_path / "copy", "model")
    copied = tmp_path / "copy" / "vocab.txt"
    assert copied.read_text() == "words" and not copied.is_symlink() and capsys.readouterr().err == ""


def test_settings_that_lie_elsewhere_are_not_read(folder: Path, tmp_path: Path) -> None:
    secret = linked(folder / "config.json", json.dumps({"model_type": "llama", "secret": SECRET}))
    readers = [
        lambda: resolve(folder, tmp_path, shape_only=True),
        lambda: list(settings_of(folder)),
        lambda: model_limit(folder),
        lambda: AskedBase(folder).config,
    ]
    for read in readers:
        with pytest.raises(mebp.Error) as caught:
            read()
        assert str(caught.value) == refused(folder / "config.json", secret)


@pytest.mark.parametrize(
    "name",
    ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json", "config.json",
     "chat_template.jinja"],
)  # fmt: skip
def test_a_tokenizer_reads_nothing_that_lies_elsewhere(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "bundle" / "tokenizer"
    make_tokenizer(folder)
    secret = linked(folder / name, "{}")
    with pytest.raises(mebp.Error) as caught:
        ChatTemplate(Tokenizer(tmp_path / "bundle"))
    assert str(caught.value) == refused(folder / name, secret)


@pytest.mark.parametrize("name", [peft.CONFIG, peft.TENSORS])
def test_an_adapter_that_lies_elsewhere(name: str, folder: Path) -> None:
    (folder / peft.CONFIG).write_text('{"peft_type": "LORA"}')
    secret = linked(folder / name, '{"peft_type": "LORA"}')
    with pytest.raises(mebp.Error) as caught:
        peft.read_peft(folder)
    assert str(caught.value) == refused(folder / name, secret)


@pytest.mark.parametrize("name", [mlx.CONFIG, mlx.TENSORS])
def test_an_adapter_of_mlx_that_lies_elsewhere(name: str, folder: Path) -> None:
    content = '{"lora_parameters": {"scale": 1.0}}'
    (folder / mlx.CONFIG).write_text(content)
    secret = linked(folder / name, content)
    with pytest.raises(mebp.Error) as caught:
        mlx.read_mlx(folder)
    assert str(caught.value) == refused(folder / name, secret)


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors", "value_head.safetensors"])
def test_a_session_s_adapter_that_lies_elsewhere(name: str, folder: Path) -> None:
    secret = linked(folder / name)
    session = object.__new__(mebp.Session)  # which is refused before anything of a session is used
    session._process, session._native = os.getpid(), SimpleNamespace(load_adapter=lambda _: pytest.fail("was read"))
    with pytest.raises(mebp.Error) as caught:
        session.load_adapter(folder)
    assert str(caught.value) == refused(folder / name, secret)


def test_a_merge_follows_no_link_at_all(tmp_path: Path) -> None:
    """Not even one that stays inside: mebpc writes none."""
    folder = tmp_path / "tokenizer"
    make_tokenizer(folder)
    (folder / "config.json").write_text("{}")
    makers = {
        "config.json": [lambda: model_config(folder / "config.json", "f32"), lambda: ModelWriter(folder, {}, "f32")],
        "tokenizer.json": [lambda: vocabulary(folder, 300)],
        "tokenizer_config.json": [lambda: vocabulary(folder, 300)],
        "chat_template.jinja": [lambda: chat_templates(folder)],
    }
    for name, making in makers.items():
        (folder / name).rename(folder / "moved")
        (folder / name).symlink_to("moved")
        for make in making:
            with pytest.raises(mebp.Error) as caught:
                make()
            assert str(caught.value) == (
                f"{folder / name}: is a link to {folder / 'moved'}, and a bundle has no links; compile it again"
            )
        (folder / "moved").rename(folder / name)


def test_weights_that_lie_elsewhere_are_named(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    secret = linked(folder / "model.safetensors")
    (folder / "inside.safetensors").write_text("weights")
    (folder / "link.safetensors").symlink_to("inside.safetensors")
    snapshot, blobs = hub_cache(tmp_path)
    (blobs / "a").write_text("weights")
    (snapshot / "cached.safetensors").symlink_to("../../blobs/a")
    (tmp_path / "out").mkdir()
    place(
        [folder / "model.safetensors", folder / "link.safetensors", snapshot / "cached.safetensors"], tmp_path / "out"
    )
    assert os.path.samefile(tmp_path / "out" / "model.safetensors", secret)
    assert capsys.readouterr().err == (
        f"note: {folder / 'model.safetensors'} is a link out of its folder: the weights are those of {secret}\n"
    )
