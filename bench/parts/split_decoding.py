# SPDX-License-Identifier: Apache-2.0
"""How fast a model over device and server decodes, by the formula of PrivateLoRA's paper, and with what it leaves out.

    tokens/s = 1 / (server's layers + device's head + A, B and M + bits up / rate up + bits down / rate down
                    + round trips * time of one)

The paper's formula has neither the last term nor, among the bits, what crosses at both ends: the embedding of the token
that goes to the server and the last hidden state that comes back.
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RANK, ADAPTED, BYTES = 64, 3, 2  # q, k and v; 16 bit
UP, DOWN = 60e6, 100e6  # bit/s
PHONE_BANDWIDTH, SERVER_BANDWIDTH = 42.7e9, 1935e9  # bytes/s: the paper's phone, an A100
VOCABULARY = 32_000
PHONE_ALONE = 5.7  # tokens/s of the 7B model on the phone
ROUND_TRIPS = (0, 0.5, 1, 2, 5, 10, 20, 50)  # ms
FEWER_LAYERS = (8, 2)  # adapted, of the first model
COLORS = ("#0b6e99", "#c2571a", "#5b8c2a")


@dataclass(frozen=True)
class Model:
    """server: tokens/s of its layers on one A100. published: the paper's tokens/s."""

    name: str
    hidden: int
    layers: int
    server: float
    published: float


MODELS = (
    Model("7B", 4096, 32, 37.1, 27.8),
    Model("13B", 5120, 40, 27.8, 21.1),
    Model("33B", 6656, 60, 16.7, 13.2),
)


def compute_seconds(model: Model, adapted: int) -> float:
    """Of a token, one part after the other. Both machines read weights more slowly than they multiply by them."""
    head = VOCABULARY * model.hidden * BYTES / PHONE_BANDWIDTH
    m = adapted * ADAPTED * RANK**2 * BYTES / PHONE_BANDWIDTH
    a_and_b = adapted * ADAPTED * 2 * RANK * model.hidden * BYTES / SERVER_BANDWIDTH
    return 1 / model.server + head + m + a_and_b


def wire_seconds(model: Model, adapted: int, ends: bool) -> float:
    """Of a token's bits each way; `ends`: with the first activation and the last."""
    values = adapted * ADAPTED * RANK + ends * model.hidden
    return 8 * BYTES * values * (1 / UP + 1 / DOWN)


def tokens_per_second(model: Model, round_trip_ms: float, adapted: int | None = None, ends: bool = True) -> float:
    """One answer is waited for at each adapted layer, and one at the top."""
    adapted = model.layers if adapted is None else adapted
    waits = (adapted + 1) * round_trip_ms / 1e3
    return 1 / (compute_seconds(model, adapted) + wire_seconds(model, adapted, ends) + waits)


def by_paper(model: Model) -> float:
    return tokens_per_second(model, 0, ends=False)


def break_even(model: Model, alone: float = PHONE_ALONE) -> float:
    """ms of a round trip at which the phone alone is as fast."""
    return 1e3 * (1 / alone - 1 / tokens_per_second(model, 0)) / (model.layers + 1)


def paper_table() -> list[str]:
    """Markdown, a line each; tokens/s."""
    lines = ["| model | the paper | by its formula | off by | with all messages |", "| --- |" + " ---: |" * 4]
    for model in MODELS:
        found = by_paper(model)
        lines.append(
            f"| {model.name} | {model.published} | {found:.2f} | {found / model.published - 1:+.1%} | "
            f"{tokens_per_second(model, 0):.2f} |"
        )
    return lines


def latency_table() -> list[str]:
    """Markdown, a line each; tokens/s for each time of a round trip, with all messages."""
    times = " | ".join(f"{time:g} ms" for time in ROUND_TRIPS)
    lines = [f"| model, adapted layers | {times} |", "| --- |" + " ---: |" * len(ROUND_TRIPS)]
    for model, adapted in _shown():
        speeds = " | ".join(f"{tokens_per_second(model, time, adapted):.1f}" for time in ROUND_TRIPS)
        lines.append(f"| {model.name}, {adapted} | {speeds} |")
    return lines


def draw(path: Path) -> None:
    """Speed against the time of a round trip, and the phone alone."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    times = [50 * step / 500 for step in range(501)]
    styles = dict(zip((None, *FEWER_LAYERS), ("-", "--", ":"), strict=True))
    for model, adapted in _shown():
        color = COLORS[MODELS.index(model)]
        style = styles[adapted if adapted != model.layers else None]
        speeds = [tokens_per_second(model, time, adapted) for time in times]
        axes.plot(times, speeds, style, color=color, linewidth=1.8, label=f"{model.name}, {adapted} adapted layers")
    for model, color in zip(MODELS, COLORS, strict=True):
        label = "the paper, without latency" if model is MODELS[0] else None
        axes.plot(0, model.published, "o", color=color, label=label, clip_on=False, zorder=3)
    axes.axhline(PHONE_ALONE, color="#777777", linewidth=1)
    axes.text(46, PHONE_ALONE - 0.15, f"7B on the phone alone: {PHONE_ALONE}", ha="right", va="top", color="#555555")
    axes.set(xlabel="time of a round trip, ms", ylabel="decoded tokens/s", xlim=(0, 50), ylim=(0, 30))
    axes.set_title("Decoding over device and server: rank 64, 60 Mbit/s up, 100 down", fontsize=11)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _shown() -> list[tuple[Model, int]]:
    """Each model with all layers adapted, and the first with fewer."""
    return [*((model, model.layers) for model in MODELS), *((MODELS[0], adapted) for adapted in FEWER_LAYERS)]
