# SPDX-License-Identifier: Apache-2.0
"""mlx-lm's side of bench/speed.py: a process that makes a step of its LoRA training whenever it is told to.

    PYTHONPATH=bench python -m parts.speed.mlx_steps cpu|gpu FOLDER TOKENS [checkpointing]

FOLDER is a transformers model, whose linear layers and embedding mlx-lm quantises to 4 bits in groups of 32. The step
is the one of mlx_lm.lora: compiled, AdamW, LoRA r=8 on all linear layers, batch 1.
"""

import contextlib
import sys
from functools import partial
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers
import numpy as np
from mlx_lm.tuner.trainer import default_loss, grad_checkpoint
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model, quantize_model
from parts.speed.contender import Step, serve

RATE = 2e-4
LORA = {"rank": 8, "scale": 2.0, "dropout": 0.0}  # alpha 16


def load(folder: str, checkpointing: bool) -> nn.Module:
    with contextlib.redirect_stdout(sys.stderr):  # what it says of its bits is no answer
        model, config = load_model(Path(folder))
        model, _ = quantize_model(model, config, group_size=32, bits=4)
    model.freeze()
    linear_to_lora_layers(model, len(model.layers), LORA)
    if checkpointing:
        grad_checkpoint(model.layers[0])
    return model.train()


def lora(folder: str, tokens: int, checkpointing: bool) -> Step:
    model = load(folder, checkpointing)
    optimizer = mlx.optimizers.AdamW(RATE, weight_decay=0.0)
    gradients = nn.value_and_grad(model, default_loss)
    state = [model.state, optimizer.state, mx.random.state]
    vocabulary = model.args.vocab_size
    generator = np.random.default_rng(0)

    @partial(mx.compile, inputs=state, outputs=state)
    def update(batch: mx.array, lengths: mx.array) -> mx.array:
        (loss, _), gradient = gradients(model, batch, lengths)
        optimizer.update(model, gradient)
        return loss

    def step() -> dict:
        # Its loss cuts off one token, to have a label for each of the others.
        batch = mx.array(generator.integers(0, vocabulary, (1, tokens + 1), dtype=np.int32))
        loss = update(batch, mx.array([[0, tokens]]))
        mx.eval(state, loss)
        return {"loss": loss.item(), "device_bytes": mx.get_peak_memory()}

    return step


def main() -> None:
    processor, folder, tokens, *options = sys.argv[1:]
    mx.set_default_device(mx.gpu if processor == "gpu" else mx.cpu)
    serve(lora(folder, int(tokens), "checkpointing" in options))


if __name__ == "__main__":
    main()
