# SPDX-License-Identifier: Apache-2.0
"""What several end-to-end tests share: the real model, real text, and the figures shown when all is done."""

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForCausalLM, PreTrainedModel

from mebp.exporter.packaged import unpack
from mebp.tokenizer import Tokenizer
from support import models
from support.exports import keep
from support.pipeline import make_bundle
from support.soak import SOAK
from support.textmodel import TEXT, make_text_bundle, make_tokenizer

_figures: list[str] = []


@pytest.fixture
def show():
    """Takes a line that the run's end shows: figures are worth reading even where they pass."""
    return _figures.append


# With pytest-xdist tests run in workers, and what these print nobody sees.
def pytest_sessionfinish(session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["figures"] = _figures


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    _figures.extend(getattr(node, "workeroutput", {}).get("figures", []))


def pytest_terminal_summary(terminalreporter) -> None:
    if _figures:
        terminalreporter.section("figures")
        for line in _figures:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def bundle(tmp_path_factory) -> Path:
    """A tiny model that reads text, for sequences up to 32 and two rows a batch."""
    return make_text_bundle(tmp_path_factory.mktemp("text"))


@pytest.fixture
def data(tmp_path) -> Path:
    """A text file."""
    path = tmp_path / "data.txt"
    path.write_text(TEXT)
    return path


@dataclass(frozen=True)
class SmolLM2:
    """The packaged model as its source has it, and compiled: int4, embedding int8, sequences up to 512, f32."""

    model: PreTrainedModel
    bundle: Path
    folder: Path  # of model.onnx
    tokenizer: Tokenizer


@pytest.fixture(scope="session")
def smollm2() -> SmolLM2:
    folder = keep("smollm2", lambda folder: make_bundle("packaged:smollm2", folder, seq_len=512))
    bundle = folder / "model.mebp"
    model = AutoModelForCausalLM.from_pretrained(unpack("packaged:smollm2")).float().eval()
    return SmolLM2(model, bundle, folder, Tokenizer(bundle))


EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def _rows(smollm2: SmolLM2, text: str, count: int, length: int) -> np.ndarray:
    """The text's first tokens, over and over where it has too few."""
    # Four characters a token is the usual rate; twice as many are surely enough.
    return np.resize(smollm2.tokenizer.encode(text[: count * length * 8]), (count, length))


def _example_text() -> str:
    """All that is said in examples/*.jsonl."""
    lines = [
        line for path in sorted(EXAMPLES.glob("*.jsonl")) for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return "\n".join(turn["content"] for line in lines for turn in json.loads(line).get("messages", ()))


@pytest.fixture(scope="session")
def long_rows(smollm2) -> np.ndarray:
    """English text, a row of 512 tokens; 4,096 tokens in `make soak`."""
    return _rows(smollm2, _example_text(), 8 if SOAK else 1, 512)


@pytest.fixture
def one_cache(tmp_path_factory, monkeypatch) -> None:
    """For all tests of a file, which build the same models."""
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def lamp_model(tmp_path_factory) -> Path:
    """A folder of a tiny Llama with a tokenizer of bytes."""
    folder = tmp_path_factory.mktemp("source") / "tiny"
    models.save(models.build("llama", vocab_size=259, num_hidden_layers=2), folder)
    make_tokenizer(folder)
    return folder


@pytest.fixture
def lamp_data(tmp_path) -> Path:
    """22 samples, so that with four a step an epoch's last one has fewer."""
    samples = [{"prompt": f"Lamp {index}: ", "completion": "is lit" + "!" * (index % 7)} for index in range(22)]
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


@pytest.fixture
def lamp_turns(tmp_path) -> Path:
    """22 answers, whose weights have no exact sum."""
    samples = []
    for index in range(22):
        answer = {"role": "assistant", "content": "Lit" + "!" * (index % 7), "weight": 0.1 + index / 7}
        samples.append({"messages": [{"role": "user", "content": f"Lamp {index}?"}, answer]})
    path = tmp_path / "turns.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


@pytest.fixture
def lamp_pairs(tmp_path) -> Path:
    """11 pairs, so that with four a step an epoch's last one has fewer."""
    pairs = [
        {"prompt": f"Lamp {index}: ", "chosen": "is lit" + "!" * (index % 7), "rejected": "is out" + "." * (index % 5)}
        for index in range(11)
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return path


@pytest.fixture
def lamp_prompts(tmp_path) -> Path:
    """7 prompts of other lengths, so that with four a rollout an epoch's last one has fewer."""
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": "Lamp " + "!" * index}) + "\n" for index in range(7)))
    (tmp_path / "rewards.py").write_text("""
def high(completion_ids, **columns):
    return [sum(ids) / (300 * len(ids)) for ids in completion_ids]
""")
    return path


@pytest.fixture(scope="session")
def short_rows(smollm2) -> np.ndarray:
    """English text, a row a step."""
    return _rows(smollm2, _example_text(), *((30, 128) if SOAK else (8, 48)))


@pytest.fixture
def wikitext(smollm2) -> np.ndarray:
    """The first 8,192 tokens of WikiText-2's test set in rows of 512."""
    if "MEBP_WIKITEXT" not in os.environ:
        pytest.skip("MEBP_WIKITEXT names no file with the test set of WikiText-2, the text of a published figure")
    return _rows(smollm2, Path(os.environ["MEBP_WIKITEXT"]).read_text(encoding="utf-8"), 16, 512)


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
