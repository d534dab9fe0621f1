# SPDX-License-Identifier: Apache-2.0
"""SmolLM3: a Llama whose every fourth layer has no positions."""

from collections.abc import Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.gguf import WRITE_ADVICE
from mebp.gguf.architecture import Architecture
from mebp.gguf.container import Container
from mebp.gguf.dense import DECODER, GATED, NORMS, PAIRED
from mebp.gguf.experts import check_rules

_INTERVAL = 4  # which no key says


def _order(count: int, interval: int) -> list[int]:
    """1: a layer has positions."""
    return [int((number + 1) % interval != 0) for number in range(count)]


def _metadata(config: Mapping, file: Path) -> dict[str, object]:
    count, layers = config["num_hidden_layers"], config.get("no_rope_layers")
    found = _order(count, config.get("no_rope_layer_interval") or _INTERVAL) if layers is None else layers
    if [*map(bool, found[:count])] != [*map(bool, _order(count, _INTERVAL))]:
        raise Error(f"{file}: has layers without positions that are not every fourth, which llama.cpp does not compute "
                    f"in 'smollm3'; {WRITE_ADVICE}")  # fmt: skip
    check_rules(config, {"attention_bias": False, "mlp_bias": False}, "smollm3", file)
    return {}


def _config(container: Container, config: dict) -> dict[str, object]:
    return {"no_rope_layer_interval": _INTERVAL, "no_rope_layers": _order(config["num_hidden_layers"], _INTERVAL)}


SMOLLM3 = Architecture(
    "smollm3",
    "smollm3",
    "SmolLM3ForCausalLM",
    DECODER,
    (*PAIRED, *GATED, *NORMS),
    tied=True,
    usual_theta=2e6,
    usual={"use_sliding_window": False},
    own_metadata=_metadata,
    own_config=_config,
)
