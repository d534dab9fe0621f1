# SPDX-License-Identifier: Apache-2.0
"""From a run to its use: a model's name, or the adapter's folder alone; and whose folder an adapter's is."""

import io
import json
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

import mebp
from mebp.adapters.origin import FILE, LIST, find_origin
from mebp.cli import main
from mebp.tokenizer import Tokenizer
from support import models
from support.commands import refusal_in_process
from support.textmodel import make_tokenizer

SAMPLES = [{"prompt": f"Lamp {index}:", "completion": " is lit"} for index in range(6)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with a model, data, an adapter that was trained on them, and the cache that it was trained with."""
    folder = tmp_path_factory.mktemp("using")
    models.save(models.build("llama", num_hidden_layers=1), folder / "tiny")
    make_tokenizer(folder / "tiny")
    (folder / "data.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in SAMPLES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEBP_CACHE", str(folder / "cache"))
        options = {"lora_rank": 4, "lora_alpha": 8, "weights": "int8"}
        mebp.train(folder / "tiny", folder / "data.jsonl", steps=2, lr=1e-2, progress=False,
                   adapter_out=folder / "adapter", **options)  # fmt: skip
    return folder


@pytest.fixture
def own(trained, tmp_path, monkeypatch) -> Path:
    """The same for one test, which may change it: the model is built from where it was."""
    for name in ("adapter", "cache"):
        shutil.copytree(trained / name, tmp_path / name, copy_function=os.link)
    for file in [*(tmp_path / "adapter").glob("*.json"), tmp_path / "cache" / LIST]:  # which tests write over
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content)
    (tmp_path / "cache" / LIST).chmod(0o600)
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    placed = json.loads((tmp_path / "cache" / LIST).read_text())
    for entry in placed.values():
        entry["bundle"] = entry["bundle"].replace(str(trained), str(tmp_path))
    (tmp_path / "cache" / LIST).write_text(json.dumps(placed))
    (tmp_path / "data.jsonl").write_bytes((trained / "data.jsonl").read_bytes())
    return tmp_path


def said(capsys, *arguments: object) -> tuple[str, str]:
    assert main([*map(str, arguments)]) == 0
    return tuple(capsys.readouterr())


def asks_for_base(capsys, adapter: Path) -> None:
    found = refusal_in_process(capsys, "generate", adapter, "--prompt", "Lamp")
    assert found == (
        f"mebp: {adapter}: this machine has not trained it as it is now, so nothing is opened because of what its "
        "mebp.json says; give --base MODEL, the model or the bundle that it was trained on\n"
    )


def test_what_lies_beside_the_adapter(own):
    stated = json.loads((own / "adapter" / FILE).read_text())
    origin = find_origin(own / "adapter")
    assert stated["bundle"] == mebp.adapters.origin.bundle_digest(Path(origin.bundle))
    assert stated["compile"]["lora_rank"] == 4 and stated["compile"]["seq_len"] == 32
    assert stated["export"] == {"seq_len": 512} and stated["model"] == "tiny"
    assert str(own.parent) not in (own / "adapter" / FILE).read_text()  # no path of this machine
    assert stat.S_IMODE((own / "cache" / LIST).stat().st_mode) == 0o600


def test_the_folder_alone(own, trained, capsys):
    data, adapter = own / "data.jsonl", own / "adapter"
    bundle = find_origin(adapter).bundle
    for rest in (["eval", "--data", data], ["generate", "--prompt", "Lamp 1:", "--max-new-tokens", 4]):
        verb, *rest = rest
        expected = said(capsys, verb, bundle, "--adapter", adapter, *rest)
        assert said(capsys, verb, adapter, *rest) == expected  # not a word more
        # What train took names the bundle that it made, where the adapter is of it.
        assert said(capsys, verb, trained / "tiny", "--adapter", adapter, *rest) == expected
        assert said(capsys, verb, adapter, "--base", trained / "tiny", *rest) == expected
        assert said(capsys, verb, adapter, "--base", bundle, *rest) == expected
    said(capsys, "merge", adapter, "-o", own / "merged", "--no-measure")
    assert (own / "merged" / "model.safetensors").exists()
    said(capsys, "adapter", "convert", adapter, "--to", "gguf", "-o", own / "adapter.gguf")


def test_inspect_shows_the_bundle_of_an_adapter(own, trained, capsys):
    bundle = find_origin(own / "adapter").bundle
    assert said(capsys, "inspect", own / "adapter") == said(capsys, "inspect", bundle)
    shutil.copytree(trained / "adapter", own / "stranger")
    (own / "stranger" / FILE).write_text("{}")
    found = refusal_in_process(capsys, "inspect", own / "stranger")
    assert "this machine has not trained it as it is now" in found


def test_the_folder_alone_in_a_conversation(own, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Lamp 1:\n")))
    assert said(capsys, "chat", own / "adapter", "--max-new-tokens", 3)[0]


class Ends:
    """Stands for Tokenizer.stop_tokens, whatever the tokenizer sets."""

    def __init__(self, tokens: range) -> None:
        self.tokens = frozenset(tokens)

    def __get__(self, *_: object) -> frozenset[int]:
        return self.tokens

    def __set__(self, *_: object) -> None:
        pass


def test_an_empty_answer_says_why(own, capsys, monkeypatch):
    rest = [own / "adapter", "--max-new-tokens", 3]
    answer, note = said(capsys, "generate", *rest, "--prompt", "Lamp 1:", "--json")
    text = json.loads(answer)["answer"]
    assert text and not note
    first = "mebp: note: the answer is empty: "
    answer, note = said(capsys, "generate", *rest, "--prompt", "Lamp 1:", "--stop", text[0])
    assert (answer, note) == ("\n", f"{first}it begins with a text of --stop\n")
    monkeypatch.setattr(Tokenizer, "stop_tokens", Ends(range(333)), raising=False)
    monkeypatch.setattr("mebp.chat.Chat.stop_tokens", lambda chat: frozenset(range(333)))
    monkeypatch.setattr("mebp.tokenizer.Tokenizer.decode", lambda tokenizer, tokens: "")
    ended = f"{first}the model ended it with its first token"
    assert said(capsys, "generate", *rest, "--prompt", "Lamp 1:")[1] == (
        f"{ended}; give --chat if the adapter was trained on conversations\n"
    )
    assert said(capsys, "generate", *rest, "--prompt", "Lamp 1:", "--chat")[1] == f"{ended}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Lamp 1:\n")))
    assert said(capsys, "chat", *rest)[1] == f"{ended}\n"
    monkeypatch.setattr(Tokenizer, "stop_tokens", Ends(range(0)), raising=False)
    assert said(capsys, "generate", *rest, "--prompt", "Lamp 1:")[1] == (
        f"{first}no text is left of its 3 tokens, which are white space or unfinished characters\n"
    )


def test_a_pruned_cache_builds_the_bundle_again(own, trained, capsys):
    adapter, arguments = own / "adapter", ["--prompt", "Lamp 1:", "--max-new-tokens", 4]
    expected = said(capsys, "generate", adapter, *arguments)
    bundle = find_origin(adapter).bundle
    shutil.rmtree(own / "cache" / "bundles")
    answer, line = said(capsys, "generate", adapter, *arguments)
    assert answer == expected[0]
    assert line == f"{bundle}: is gone, so it is built again from {trained / 'tiny'}\n"
    assert said(capsys, "generate", adapter, *arguments) == expected
    for folder in (own / "cache").iterdir():
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    asks_for_base(capsys, adapter)


def test_a_bundle_that_is_another_one_now(own, capsys):
    bundle = Path(find_origin(own / "adapter").bundle)
    program = (bundle / "program.pb").read_bytes()
    (bundle / "program.pb").unlink()
    (bundle / "program.pb").write_bytes(program + b"\0")
    assert not find_origin(own / "adapter").has_bundle


def test_a_copied_folder_has_what_it_was_copied_from(own, capsys):
    """The bytes are what this machine has written: wherever they lie."""
    shutil.copytree(own / "adapter", own / "copied")
    said(capsys, "generate", own / "copied", "--prompt", "Lamp 1:", "--max-new-tokens", 2)


@pytest.mark.parametrize("name", [FILE, "adapter_config.json", "adapter_model.safetensors"])
def test_an_edited_folder_is_a_strangers(own, capsys, name):
    file = own / "adapter" / name
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content.replace(b'"r": 4', b'"r":  4') if name == "adapter_config.json" else content + b"\n")
    asks_for_base(capsys, own / "adapter")


def test_another_adapter_beside_its_mebp_json_is_a_strangers(own, capsys):
    shutil.copytree(own / "adapter", own / "mixed")
    tensors = bytearray((own / "mixed" / "adapter_model.safetensors").read_bytes())
    tensors[-1] ^= 1
    (own / "mixed" / "adapter_model.safetensors").write_bytes(tensors)
    asks_for_base(capsys, own / "mixed")
    (own / "mixed" / "private_lora.safetensors").write_bytes(b"x")
    asks_for_base(capsys, own / "mixed")


def test_a_forged_mebp_json_decides_nothing(own, trained, capsys):
    stated = json.loads((own / "adapter" / FILE).read_text())
    forged = {**stated, "folder": str(own / "adapter"), "model": str(trained / "tiny"), "asked": str(trained / "tiny"),
              "path": find_origin(own / "adapter").bundle}  # fmt: skip
    (own / "adapter" / FILE).write_text(json.dumps(forged))
    asks_for_base(capsys, own / "adapter")
    (own / "adapter" / FILE).unlink()
    asks_for_base(capsys, own / "adapter")
    (own / "adapter" / FILE).symlink_to(own / "data.jsonl")
    assert "is a link to" in refusal_in_process(capsys, "generate", own / "adapter", "--prompt", "Lamp")


def test_a_strangers_folder_takes_a_base(own, trained, capsys):
    """Its settings say rank and layers, and mebp.json nothing."""
    (own / "adapter" / FILE).unlink()
    rest = ["--prompt", "Lamp 1:", "--max-new-tokens", 4]
    answer, lines = said(capsys, "generate", own / "adapter", "--base", trained / "tiny", *rest)
    assert answer and "LoRA of rank 4, alpha 8" in lines
    assert said(capsys, "generate", own / "adapter", "--base", trained / "tiny", *rest) == (answer, "")
    assert said(capsys, "generate", trained / "tiny", "--adapter", own / "adapter", *rest) == (answer, "")
    assert said(capsys, "generate", trained / "tiny", "--lora-rank", 4, *rest)[0]


_BY_BUNDLE = "give --base NAME.mebp, a bundle for it"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"r": "4"}, f"does not say r, lora_alpha and target_modules; {_BY_BUNDLE}"),
        (
            {"target_modules": "(a+)+"},
            "target_modules is '(a+)+', a pattern that is not read; put in its place a list of the layers' names, such "
            'as ["q_proj", "v_proj"]',
        ),
        ({"target_modules": ["--weights", "/etc"]}, f"target_modules are not names of layers; {_BY_BUNDLE}"),
        *(
            (
                {"layers_to_transform": layers},
                f"layers_to_transform are not layers one after the other, as --lora-layers has them; {_BY_BUNDLE}",
            )
            for layers in ([0, 2], [-1, 0], "all", ["1"], [10**30, 1], 1.0)
        ),
    ],
)
def test_settings_of_a_stranger_are_no_options(own, trained, capsys, settings, why):
    file = own / "adapter" / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    line = refusal_in_process(capsys, "generate", own / "adapter", "--base", trained / "tiny", "--prompt", "x")
    assert line == f"mebp: {file}: {why}\n"


def test_a_build_holds_the_cache_to_its_limit(own, trained, capsys, monkeypatch):
    old = own / "cache" / "bundles" / "old-1"
    old.mkdir(mode=0o700)
    (old / "content").write_bytes(bytes(2_000_000))
    os.utime(old, (1e9, 1e9))
    rest = [trained / "tiny", "--lora-rank", 2, "--prompt", "Lamp 1:", "--max-new-tokens", 2]
    monkeypatch.setenv("MEBP_CACHE_LIMIT", "much")
    assert "MEBP_CACHE_LIMIT much " in refusal_in_process(capsys, "generate", *rest)
    monkeypatch.setenv("MEBP_CACHE_LIMIT", "1B")
    lines = said(capsys, "generate", *rest)[1].splitlines()
    gone = [line for line in lines if line.endswith(", for MEBP_CACHE_LIMIT is 1e-09 GB")]
    assert gone[0].startswith(f"{old}: removed from the cache, last used ") and not old.exists()
    # What the build itself uses stays, too little room or not.
    assert list((own / "cache" / "exports").glob("tiny-*")) and said(capsys, "generate", *rest)[1] == ""


@pytest.mark.parametrize("mode", [0o644, 0o620])
def test_a_list_that_others_could_have_written(own, capsys, mode):
    file = own / "cache" / LIST
    file.chmod(mode)
    assert refusal_in_process(capsys, "generate", own / "adapter", "--prompt", "x") == (
        f"mebp: {file}: is not yours alone, so what it says may be anybody's; remove it; adapters that were trained "
        "before then need --base\n"
    )


def test_a_list_that_is_a_link(own, capsys):
    (own / "cache" / LIST).rename(own / "elsewhere")
    (own / "cache" / LIST).symlink_to(own / "elsewhere")
    assert "is not yours alone" in refusal_in_process(capsys, "generate", own / "adapter", "--prompt", "x")


def test_a_run_that_cannot_write_the_list_says_so(own, capsys):
    (own / "cache" / LIST).chmod(0o666)
    bundle = find_bundle(own)
    out = said(capsys, "train", bundle, "--data", own / "data.jsonl", "--steps", 1, "--adapter-out", own / "new")[0]
    line = f"note: commands that use {own / 'new'} need --base: {own / 'cache' / LIST}: is not yours alone"
    assert any(each.startswith(line) for each in out.splitlines())


def find_bundle(own: Path) -> Path:
    return next((own / "cache" / "bundles").glob("*/*.mebp"))


def test_an_adapter_of_a_bundle(own, capsys):
    """Of a bundle that the user compiled, mebp knows where it is, and no model that makes it again."""
    bundle = own / "mine.mebp"
    shutil.copytree(find_bundle(own), bundle)
    said(capsys, "train", bundle, "--data", own / "data.jsonl", "--steps", 1, "--adapter-out", own / "new")
    assert json.loads((own / "new" / FILE).read_text())["compile"]["lora"]["rank"] == 4
    rest = ["--prompt", "Lamp", "--max-new-tokens", 2]
    said(capsys, "generate", own / "new", *rest)
    assert refusal_in_process(capsys, "generate", own / "new", *rest, "--lora-rank", 2) == (
        f"mebp: --lora-rank is for a model, and {own / 'new'} was trained on a bundle; leave it out\n"
    )
    assert refusal_in_process(capsys, "generate", bundle, *rest, "--lora-rank", 2) == (
        f"mebp: --lora-rank is for a model, and {bundle} is compiled already; leave it out\n"
    )
    shutil.rmtree(bundle)
    assert refusal_in_process(capsys, "generate", own / "new", *rest) == (
        f"mebp: {own / 'new'}: was trained on {bundle}, which is gone or another one now; give --base MODEL, the model "
        "or another bundle of it\n"
    )


def test_what_does_not_go_together(own, trained, capsys):
    adapter, tiny = own / "adapter", trained / "tiny"
    for given, why in [
        ([adapter, "--adapter", adapter],
         f"{adapter}: is an adapter already; leave out --adapter, or give the model in its place"),
        ([tiny, "--base", tiny],
         f"--base names the model of an adapter's folder, and {tiny} is not one; leave --base out"),
    ]:  # fmt: skip
        assert refusal_in_process(capsys, "generate", *given, "--prompt", "x") == f"mebp: {why}\n"
    assert refusal_in_process(capsys, "merge", tiny, "-o", own / "out") == (
        f"mebp: {tiny}: is not an adapter's folder; give one, or --adapter DIR, the adapter to merge\n"
    )
    (own / "steps" / "step-2").mkdir(parents=True)
    (own / "steps" / "step-2" / "adapter_config.json").write_text("{}")
    assert refusal_in_process(capsys, "generate", own / "steps", "--prompt", "x") == (
        f"mebp: {own / 'steps'}: holds the adapters of several steps; give one, such as {own / 'steps' / 'step-2'}\n"
    )


def test_a_mebp_json_of_somebody_else_stays(own, capsys):
    (own / "new").mkdir()
    (own / "new" / FILE).write_text('{"mine": 1}')
    bundle, data = find_bundle(own), own / "data.jsonl"
    out = said(capsys, "train", bundle, "--data", data, "--steps", 1, "--adapter-out", own / "new")[0]
    assert (own / "new" / FILE).read_text() == '{"mine": 1}'
    assert f"need --base: {own / 'new' / FILE} is another program's" in out
    asks_for_base(capsys, own / "new")


def test_all_steps_of_a_run_are_known(own, capsys):
    bundle, data = find_bundle(own), own / "data.jsonl"
    for _ in range(2):
        said(capsys, "train", bundle, "--data", data, "--steps", 2, "--save-every", 1, "--keep", "all",
             "--adapter-out", own / "new", "--overwrite")  # fmt: skip
        assert find_origin(own / "new" / "step-1") and find_origin(own / "new" / "step-2")
    said(capsys, "train", bundle, "--data", data, "--steps", 1, "--keep", "all", "--adapter-out", own / "new",
         "--overwrite")  # fmt: skip
    assert sorted(each.name for each in (own / "new").glob("step-*")) == ["step-1"]
