# SPDX-License-Identifier: Apache-2.0
"""Whether a bundle continues a prompt, greedily, as transformers does with the same weights."""

from pathlib import Path

import numpy as np
import torch
from transformers import GenerationConfig, PreTrainedModel

import mebp

PROMPT, NEW = 8, 32


def count_equal_tokens(model: PreTrainedModel, bundle: Path) -> int:
    """How many of the first NEW tokens are transformers', up to the first that is not. `model`: in float32."""
    session = mebp.Session(bundle, generate_only=True)
    prompt = np.random.default_rng(0).integers(3, session.vocabulary, (1, PROMPT))
    greedy = GenerationConfig(max_new_tokens=NEW, do_sample=False, use_cache=False, pad_token_id=0, eos_token_id=None)
    model.generation_config.eos_token_id = None  # None in `greedy` is not heard
    with torch.no_grad():
        expected = model.generate(torch.from_numpy(prompt), generation_config=greedy)
    differs = np.nonzero(session.generate(prompt, NEW)[0] != expected.numpy()[0])[0]
    return NEW if not len(differs) else int(differs[0]) - PROMPT
