# SPDX-License-Identifier: Apache-2.0
"""What several end-to-end tests share: the real model, real text, and the figures shown when all is done."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from pipeline import make_bundle
from textmodel import TEXT, make_text_bundle
from transformers import AutoModelForCausalLM, PreTrainedModel

from mebp.exporter.packaged import unpack
from mebp.tokenizer import Tokenizer

# torch's OpenMP threads wait by spinning: where another process has a core, two are several times slower than one.
torch.set_num_threads(1)

# A shell starts what runs in its background with Ctrl-C ignored, and that is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)

_figures: list[str] = []


@pytest.fixture
def show():
    """Takes a line that the run's end shows: figures are worth reading even where they pass."""
    return _figures.append


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
def smollm2(tmp_path_factory) -> SmolLM2:
    folder = tmp_path_factory.mktemp("smollm2")
    bundle = make_bundle("packaged:smollm2", folder, seq_len=512)
    model = AutoModelForCausalLM.from_pretrained(unpack("packaged:smollm2")).float().eval()
    return SmolLM2(model, bundle, folder, Tokenizer(bundle))


def _wikitext(name: str) -> str:
    checkout = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("MEBP_WIKITEXT", checkout.parent / "shared" / "data" / "wikitext-2"))
    path = folder / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"WikiText-2 is not in {folder}; set MEBP_WIKITEXT to a folder with test.txt and valid.txt")
    return path.read_text(encoding="utf-8")


def _rows(smollm2: SmolLM2, text: str, count: int, length: int) -> np.ndarray:
    # Four characters a token is the usual rate; twice as many are surely enough.
    tokens = smollm2.tokenizer.encode(text[: count * length * 8])
    return np.array(tokens[: count * length]).reshape(count, length)


@pytest.fixture
def wikitext_test(smollm2) -> np.ndarray:
    """The first 8,192 tokens in rows of 512."""
    return _rows(smollm2, _wikitext("test"), 16, 512)


@pytest.fixture
def wikitext_valid(smollm2) -> np.ndarray:
    """Thirty rows of 128 tokens."""
    return _rows(smollm2, _wikitext("valid"), 30, 128)
