# SPDX-License-Identifier: Apache-2.0
"""The tables of bench/memory.py, from its cells; MB in all of them."""


def megabytes(count: float) -> str:
    return f"{count / 1e6:,.1f}"


def plans_table(cells: list) -> list[str]:
    """Markdown, a line each."""
    measured = "plan | at every kernel call | polled | clean pages | s a step"
    header = f"| shape | tokens | budget | {measured} | without a budget: plan | s a step | time ratio | MeSP |"
    lines = [header, "| --- |" + " ---: |" * 11]
    return lines + [
        f"| {cell.shape} | {cell.length:,} | {cell.budget} | {megabytes(cell.planned)} "
        f"| {megabytes(cell.sampled)} | {megabytes(cell.polled.written)} | {megabytes(cell.polled.clean)} "
        f"| {cell.seconds:.1f} | {megabytes(cell.fastest_planned)} | {cell.fastest_seconds:.1f} "
        f"| {cell.ratio:.2f} | {cell.mesp} |"
        for cell in cells
    ]


def optimizers_table(cells: list) -> list[str]:
    """Markdown, a line each."""
    lines = [
        "| shape | tokens | optimizer | in a file | plan | at every kernel call | polled | to the file a step |",
        "| --- | ---: | --- | --- |" + " ---: |" * 4,
    ]
    return lines + [
        f"| {cell.shape} | {cell.length:,} | {cell.optimizer} | {cell.in_file} | {megabytes(cell.planned)} "
        f"| {megabytes(cell.sampled)} | {megabytes(cell.polled.written)} | {megabytes(cell.to_file)} |"
        for cell in cells
    ]


def least_table(cells: list) -> list[str]:
    """Markdown, a line each."""
    lines = ["| shape | tokens | budget | plan | at every kernel call | polled | to the file a step | s a step |"]
    lines.append("| --- |" + " ---: |" * 7)
    return lines + [
        f"| {cell.shape} | {cell.length:,} | {cell.budget} | {megabytes(cell.planned)} | {megabytes(cell.sampled)} "
        f"| {megabytes(cell.polled.written)} | {megabytes(cell.to_file)} | {cell.seconds:.1f} |"
        for cell in cells
    ]


def others_table(cells: list) -> list[str]:
    """Markdown, a line each."""
    lines = ["| system | shape | tokens | polled | clean pages |", "| --- | --- |" + " ---: |" * 3]
    return lines + [
        f"| {cell.system} | {cell.shape} | {cell.length:,} | {megabytes(cell.polled.written)} "
        f"| {megabytes(cell.polled.clean)} |"
        for cell in cells
    ]
