# SPDX-License-Identifier: Apache-2.0
"""The tables of bench/roofline.py."""

from parts.roofline.calls import Kernel

REST = "everything else"
SHOWN = 0.002  # of a step; kernels that take less are one row
TABLE = list[str]


def kernels_of(results: dict) -> dict[str, Kernel]:
    return {name: Kernel(**kernel) for name, kernel in results["kernels"].items()}


def shown(results: dict) -> dict[str, Kernel]:
    """Those that take enough of the step to be seen in a table or a picture."""
    return {name: each for name, each in kernels_of(results).items() if each.seconds >= SHOWN * results["seconds"]}


def kernels_table(results: dict) -> TABLE:
    table = [
        "| machine | model | tokens | plan | kernel | calls | of the step | GFLOP/s | of the peak | GB/s "
        "| of memory's rate | threads wait | beyond the limits, ms |",
        "| --- | --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    limits = results["limits"]
    plan = f"{results['budget']:g} MB" if results["budget"] else "no budget"
    cell = f"| {results['machine']} | {results['model']} | {results['tokens']:,} | {plan} "
    rest = results["seconds"]
    for name, kernel in shown(results).items():
        flops, moved = kernel.flops / kernel.seconds, kernel.bytes / kernel.seconds
        table.append(
            f"{cell}| `{name}` | {kernel.calls:,} | {kernel.seconds / results['seconds']:.1%} | {flops / 1e9:,.1f} "
            f"| {flops / limits['flops']:.0%} | {moved / 1e9:,.1f} | {moved / limits['bytes']:.0%} "
            f"| {kernel.waiting:.0%} | {kernel.gap * 1e3:,.1f} |"
        )
        rest -= kernel.seconds
    table.append(f"{cell}| {REST} | | {rest / results['seconds']:.1%} | | | | | | |")
    return table


def gaps(results: dict) -> str:
    """The three kernels that lose most to the limits, in one sentence."""
    limits, seconds = results["limits"], results["seconds"]
    largest = sorted(kernels_of(results).items(), key=lambda item: -item[1].gap)[:3]
    threads = f"{results['threads']} thread{'s' if results['threads'] > 1 else ''}"
    named = ", ".join(f"{name} {each.gap * 1e3:,.0f} ms ({each.gap / seconds:.0%})" for name, each in largest)
    return (
        f"A step of {seconds:.2f} s, {threads}; {limits['kind']}: {limits['flops'] / 1e9:,.0f} "
        f"GFLOP/s, memory: {limits['bytes'] / 1e9:,.1f} GB/s. The largest gaps to these limits: {named}."
    )


def tasks_table(results: dict) -> TABLE:
    counts = list(results["tasks"])
    heads = [f"tasks for {count} threads | of its work in calls with fewer than {2 * int(count)}" for count in counts]
    table = [
        "| kernels | model | tokens | kernel | " + " | ".join(heads) + " |",
        "| --- | --- | ---: | --- |" + " ---: | ---: |" * len(counts),
    ]
    for name in results["tasks"][counts[0]]:
        row = []
        for count in counts:
            tasks = results["tasks"][count][name]
            least, most = tasks["least"], tasks["most"]
            given = f"{least:,} to {most:,}" if least < most else f"{most:,}"
            row.append(f"{given} | {tasks['short']:.0%}")
        table.append(
            f"| {results['kernels']} | {results['model']} | {results['tokens']:,} | `{name}` | "
            + " | ".join(row)
            + " |"
        )
    return table
