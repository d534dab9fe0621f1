# SPDX-License-Identifier: Apache-2.0
"""The tables of bench/frontier.py."""

import statistics

from parts.spread import Spread


def seconds(cell: dict, name: str) -> list[float]:
    return [answer["seconds"] for answer in cell["answers"][name]]


def ratios(cell: dict, name: str, other: str) -> Spread:
    """Round by round."""
    return Spread.of(a / b for a, b in zip(seconds(cell, name), seconds(cell, other), strict=True))


def usual(cell: dict) -> str:
    """The contender that has no budget."""
    return next(str(i) for i, point in enumerate(cell["points"]) if point["is_usual"])


def others(cell: dict) -> list[str]:
    return [name for name in cell["answers"] if not name.isdigit()]


def peers_of(cell: dict) -> list[str]:
    """Those of `others` that are no builds of mebp."""
    return [name for name in others(cell) if not name.startswith("mebp ")]


def points(results: dict) -> list[str]:
    table = [
        "| machine | model | tokens | planned, MB | peak, MB | kept values, MB | predicted, s | measured, s "
        "| measured / predicted | of the plan without a budget |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for cell in results["cells"]:
        for number, point in enumerate(cell["points"]):
            median = statistics.median(seconds(cell, str(number)))
            beside = ratios(cell, str(number), usual(cell)).describe()
            table.append(
                f"| {results['cpu']} | {cell['model']} | {cell['tokens']:,} | {point['peak_bytes'] / 1e6:.1f} "
                f"| {point['measured_bytes'] / 1e6:.1f} | {point['kept_bytes'] / 1e6:.1f} | {point['seconds']:.2f} "
                f"| {median:.2f} | {median / point['seconds']:.2f} | {beside} |"
            )
    return table


def peers(results: dict) -> list[str]:
    table = [
        "| machine | model | tokens | who | peak, MB | s a step | of mebp's fastest | of mebp's without a budget |",
        "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for cell in results["cells"]:
        fastest = str(len(cell["points"]) - 1)
        for name in others(cell):
            peak = max(answer["peak_bytes"] for answer in cell["answers"][name])
            table.append(
                f"| {results['cpu']} | {cell['model']} | {cell['tokens']:,} | {name} | {peak / 1e6:,.0f} "
                f"| {statistics.median(seconds(cell, name)):.2f} | {ratios(cell, name, fastest).describe()} "
                f"| {ratios(cell, name, usual(cell)).describe()} |"
            )
    return table


def say_worst(results: dict) -> str:
    """Of all points."""
    found = [(cell, number, point) for cell in results["cells"] for number, point in enumerate(cell["points"])]
    times = [statistics.median(seconds(cell, str(number))) / point["seconds"] for cell, number, point in found]
    peaks = [point["measured_bytes"] / point["peak_bytes"] for _, _, point in found]

    def worst(values: list[float]) -> float:
        return max(values, key=lambda value: abs(value - 1))

    return f"{len(found)} plans, farthest from the plan: time {worst(times):.2f}, peak {worst(peaks):.3f}"


TABLES = {"plans": points, "peers": peers}
