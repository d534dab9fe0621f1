# SPDX-License-Identifier: Apache-2.0
"""Tables of Parquet and Arrow: a row is a sample by its columns."""

import subprocess
import sys

import numpy as np
import pyarrow
import pytest
from pyarrow import ipc, parquet

from mebp.data.classes import read_classified
from mebp.data.columns import Columns
from mebp.data.forms import Completion, Conversation, Document
from mebp.data.reading import json_objects, read_samples
from mebp.data.sources import Source
from mebp.data.splits import data_files, find_splits
from mebp.data.token_classes import read_tagged
from mebp.errors import Error


def write(path, rows: list[dict], kind: str = "parquet", per_group: int = 2):
    table = pyarrow.Table.from_pylist(rows)
    if kind == "parquet":
        parquet.write_table(table, path, row_group_size=per_group)
        return path
    with (ipc.new_file if kind == "file" else ipc.new_stream)(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=per_group)
    return path


KINDS = ["parquet", "file", "stream"]
TURNS = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "I."}]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["data.parquet", "data"])
def test_rows_in_their_order(tmp_path, kind, name):
    rows = [{"prompt": f"{number}", "completion": "b", "id": number} for number in range(600)]
    samples = read_samples(write(tmp_path / name, rows, kind, per_group=350))
    assert samples == [Completion(f"{tmp_path / name}:{index + 1}", f"{index}", "b") for index in range(600)]
    assert samples[0].unread == {"id"}


@pytest.mark.parametrize("kind", KINDS)
def test_nested_columns_and_null(tmp_path, kind):
    call = {"name": "f", "arguments": "{}"}
    turns = [TURNS, [*TURNS, {"role": "user", "content": "And?"}, {"role": "assistant", "tool_calls": [call]}]]
    rows = [{"messages": each, "tools": None, "weight": weight} for each, weight in zip(turns, (None, 0), strict=True)]
    path = write(tmp_path / "data", rows, kind)
    first, second = read_samples(path)
    assert first == Conversation(f"{path}:1", TURNS) and not first.unread
    assert not second.learned and second.messages[3]["tool_calls"][0]["arguments"] == {}


def test_texts_pairs_and_labels(tmp_path):
    assert read_samples(write(tmp_path / "a", [{"text": "a"}])) == [Document(f"{tmp_path}/a:1", "a")]
    pairs = write(tmp_path / "b", [{"prompt": "a", "chosen": TURNS, "rejected": TURNS}])
    assert list(json_objects(pairs)) == [(f"{pairs}:1", {"prompt": "a", "chosen": TURNS, "rejected": TURNS})]
    assert read_classified(write(tmp_path / "c", [{"text": "a", "label": 3}]))[0].label.value == 3
    named = Source.of(write(tmp_path / "d", [{"tokens": ["a", "b"], "ner_tags": [0, -100]}]),
                      Columns.read("labels=ner_tags"))  # fmt: skip
    assert read_tagged(named)[0].words == ["a", "b"]


def test_a_folder_of_tables(tmp_path):
    for name in ("train", "valid"):
        write(tmp_path / f"{name}.parquet", [{"text": name}])
    splits = find_splits(tmp_path)
    assert {option: path.name for option, path in splits.items()} == {"data": "train.parquet", "eval": "valid.parquet"}
    assert [path.name for path in data_files(tmp_path)] == ["train.parquet"]


@pytest.mark.parametrize("beginning", ["PAR10 seats", "ARROW1 flies"])
def test_a_text_that_begins_like_a_table(tmp_path, beginning):
    (tmp_path / "data.txt").write_text(beginning)
    assert read_samples(tmp_path / "data.txt") == [Document(f"{tmp_path}/data.txt", beginning)]


def refusal(path) -> str:
    with pytest.raises(Error) as caught:
        read_samples(path)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch, kind):
    path = write(tmp_path / "data", [{"text": "a"}], kind)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    told = refusal(path)
    assert told.startswith(f"{path}: a{'n Arrow' if kind != 'parquet' else ' Parquet'} table, which needs pyarrow (")
    assert told.endswith("; install it with: pip install 'mebp[parquet]'")


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_is_cut_off(tmp_path, kind):
    path = write(tmp_path / "data", [{"text": "a"}], kind)
    path.write_bytes(path.read_bytes()[:-200] if kind != "parquet" else path.read_bytes()[:-20])
    what = "a Parquet table" if kind == "parquet" else "an Arrow table"
    told = refusal(path)
    assert (
        told.startswith(f"{path}: cannot be read as {what} (") or told == f"{path}: has no samples; give another file"
    )
    assert "\n" not in told


def test_what_is_refused_in_a_row(tmp_path):
    path = write(tmp_path / "a", [{"text": "a"}, {"text": None}])
    assert refusal(path) == f'{path}:2: "text" is null; give a string'
    path = write(tmp_path / "b", [{"text": b"a"}])
    assert refusal(path) == f'{path}:1: "text" is no text; give a string'
    path = tmp_path / "c"
    parquet.write_table(pyarrow.table({"text": pyarrow.array([], pyarrow.string())}), path)
    assert refusal(path) == f"{path}: has no samples; give another file"


def test_a_row_group_is_never_in_memory(tmp_path):
    random = np.random.default_rng(0)
    texts = [random.bytes(5000).hex() for _ in range(4000)]
    write(tmp_path / "data", [{"text": text} for text in texts], per_group=4000)  # 40 MB
    code = (
        "import pyarrow; from mebp.data.reading import SampleFiles; from mebp.data.sources import Source; "
        f"print(sum(len(sample.text) for sample in SampleFiles(Source.of({str(tmp_path / 'data')!r}))), "
        "pyarrow.default_memory_pool().max_memory())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    characters, most = map(int, run.stdout.split())
    assert characters == 40_000_000 and most < 36 << 20  # pyarrow takes 33 MB for any size
