# SPDX-License-Identifier: Apache-2.0
"""What is written can be read by those whom the umask lets, though it was made under another name."""

import os
import stat
from pathlib import Path

import pytest

import mebp
from mebp.cli import main
from support import models
from support.textmodel import TEXT, make_tokenizer


@pytest.fixture
def umask():
    previous = os.umask(0o027)
    yield 0o027
    os.umask(previous)


def test_permissions_are_what_the_umask_says(tmp_path, umask):
    data, out = tmp_path / "data.txt", tmp_path / "out"
    data.write_text(TEXT)
    out.mkdir()
    models.save(models.build("llama"), tmp_path / "source")
    make_tokenizer(tmp_path / "source")
    bundle = out / "model.mebp"
    mebp.compile(mebp.export(tmp_path / "source", out / "model.onnx", seq_len=32), bundle)
    files = {"log": out / "run.jsonl", "plot": out / "run.png", "profile": out / "trace.json"}
    mebp.train(bundle, data, steps=2, adapter_out=out / "adapter", state=out / "state", progress=False, **files)
    mebp.train(bundle, data, steps=3, state=out / "state", progress=False, resume=True, log=files["log"])
    mebp.merge(bundle, out / "adapter", out / "merged")
    assert main(["inspect", str(bundle), "--html", str(out / "page.html")]) == 0
    weights = {file.stat().st_ino for file in (tmp_path / "source").iterdir()}  # linked: they stay as they were
    odd = {}
    for path in out.rglob("*"):
        status = path.stat()
        wanted = (0o777 if stat.S_ISDIR(status.st_mode) else 0o666) & ~umask
        if stat.S_IMODE(status.st_mode) != wanted and status.st_ino not in weights:
            odd[str(Path(path).relative_to(out))] = oct(stat.S_IMODE(status.st_mode))
    assert not odd
