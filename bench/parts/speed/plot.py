# SPDX-License-Identifier: Apache-2.0
"""The picture of bench/speed.py, drawn from its table of steps."""

from pathlib import Path

from parts import row_chart
from parts.pages import cells
from parts.speed.cell import FORWARD, MEBP, MEZO, PEFT, PEFT_F32, TORCH_MEZO

PLAIN, CHECKPOINTING, NO_AUTOCAST, BOTH = PEFT
PLAIN_F32, CHECKPOINTING_F32 = PEFT_F32
LOOKS = {
    MEBP: ("#0b6e99", "o"),
    MEZO: ("#0b6e99", "D"),
    FORWARD: ("#0b6e99", "|"),
    PLAIN: ("#6b6b6b", "o"),
    CHECKPOINTING: ("#6b6b6b", "s"),
    NO_AUTOCAST: ("#b0a000", "o"),
    BOTH: ("#b0a000", "s"),
    PLAIN_F32: ("#7b4fa3", "o"),
    CHECKPOINTING_F32: ("#7b4fa3", "s"),
    TORCH_MEZO: ("#c2571a", "D"),
}


def speeds(steps: list[str]) -> dict[str, dict[str, float]]:
    """Tokens/s by who, of each machine, model and length."""
    found: dict[str, dict[str, float]] = {}
    for row in steps[2:]:
        machine, model, tokens, who, _, rate, *_ = cells(row)
        found.setdefault(f"{model}, {tokens} tokens\n{machine}", {})[who] = float(rate.replace(",", ""))
    return found


def draw(steps: list[str], path: Path) -> None:
    """A row for each machine, model and length."""
    rows = speeds(steps)
    figure, axes, heights = row_chart.start(list(rows), row_height=0.7, margin=1.8)
    for who, (color, marker) in LOOKS.items():
        points = [(row[who], heights[name]) for name, row in rows.items() if who in row]
        if points:
            size = 160 if marker == "|" else 55
            axes.scatter(*zip(*points, strict=True), size, color, marker, zorder=3, label=who)
    low, high = axes.get_xlim()
    ticks = [tick for power in range(6) for tick in (10**power, 2 * 10**power, 5 * 10**power) if low <= tick <= high]
    row_chart.save(figure, axes, heights, 0.5, "tokens a second", ticks, path)
