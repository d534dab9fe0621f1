# SPDX-License-Identifier: Apache-2.0
"""The few SVG elements that the charts are made of."""

from collections.abc import Iterator
from html import escape


def element(tag: str, content: str = "", **attributes: object) -> str:
    """`class_` is class, and other underscores are hyphens; `content` is markup already."""
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_short(value))}"' for name, value in attributes.items()
    )
    return f"<{tag}{given}>{content}</{tag}>"


def text(content: str, x: float, y: float, **attributes: object) -> str:
    return element("text", escape(content), x=x, y=y, **attributes)


def ticks(most: float) -> Iterator[float]:
    """Round numbers from 0 to `most`, about five."""
    step = 10 ** (len(str(int(most))) - 1) if most >= 1 else 0.01
    while most / step < 4:
        step /= 2
    return (number * step for number in range(int(most / step) + 1))


def _short(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
