# SPDX-License-Identifier: Apache-2.0
"""The arithmetic that an exact LoRA step of a Llama-like model cannot do without, from its config.json alone."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Arithmetic:
    """FLOP of a step, a multiply-add counting as two. No checkpoint but the layers' inputs is kept, so layers run
    twice; LoRA itself, norms and activation functions are left out: they are below a twentieth."""

    forward: int  # every linear of the layers
    recompute: int  # again in the backward, but the last linear of each layer: nothing reads its result there
    input_gradients: int  # every linear of the layers; frozen weights need no gradient of their own
    head: int  # logits once, and the gradient of the head's input
    attention: int  # two products in the forward, two again, four in the backward; half of each is masked

    @property
    def total(self) -> int:
        return sum(asdict(self).values())


def layer_linears(config: dict) -> dict[str, tuple[int, int]]:
    """(inputs, outputs) of a layer's linears, in the order in which they run."""
    hidden, intermediate, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    head_size = config.get("head_dim") or hidden // heads
    queries, keys = heads * head_size, config["num_key_value_heads"] * head_size
    return {
        "q_proj": (hidden, queries),
        "k_proj": (hidden, keys),
        "v_proj": (hidden, keys),
        "o_proj": (queries, hidden),
        "gate_proj": (hidden, intermediate),
        "up_proj": (hidden, intermediate),
        "down_proj": (intermediate, hidden),
    }


def needed_arithmetic(config: dict, tokens: int) -> Arithmetic:
    """Of a step on one sequence of `tokens`."""
    linears, layers = layer_linears(config), config["num_hidden_layers"]
    weights = {name: inputs * outputs for name, (inputs, outputs) in linears.items()}
    pass_over_layers = 2 * tokens * layers * sum(weights.values())
    pairs = tokens * (tokens + 1) // 2  # of a query and a key that it sees
    return Arithmetic(
        forward=pass_over_layers,
        recompute=pass_over_layers - 2 * tokens * layers * weights["down_proj"],
        input_gradients=pass_over_layers,
        head=2 * (2 * tokens * config["hidden_size"] * config["vocab_size"]),
        attention=8 * (2 * pairs * linears["q_proj"][1] * layers),
    )
