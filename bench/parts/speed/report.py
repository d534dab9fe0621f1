# SPDX-License-Identifier: Apache-2.0
"""The tables of bench/speed.py, from what it collected. Medians over rounds; a range is of the rounds' own ratios."""

import statistics

from parts.speed.cell import LINEARS, MATMUL, MEBP, ONE_THREAD, PEAKS, TRACED
from parts.speed.claims import SUMMARY, Claim, claims, peak_bytes, ratios, seconds, vector_peak
from parts.speed.machine import label
from parts.spread import Spread

Table = list[str]
LEAST_SHARE = 0.005  # of a step: kernels below it have no row


def table(columns: str, texts: int, rows: list[list[str]]) -> Table:
    """Markdown, a line each; `texts` columns of text, numbers after them."""
    names = columns.split(" | ")
    rule = " | ".join(["---"] * texts + ["---:"] * (len(names) - texts))
    return [f"| {columns} |", f"| {rule} |", *(f"| {' | '.join(row)} |" for row in rows)]


def machine_table(results: dict) -> Table:
    machine = results["machine"]
    limits = " ".join(f"{name}={value}" for name, value in machine["limits"].items())
    row = [label(machine), str(machine["cores"]), ", ".join(machine["flags"]), machine["onednn"], limits]
    return table("machine, kernels | cores | has | oneDNN uses | held to", 5, [row])


def peaks_table(results: dict) -> Table:
    highest: dict[tuple[str, str], float] = {}
    for cell in results["cells"]:
        for answer in cell["answers"].get(PEAKS, []):
            for kind, rates in answer["flops"].items():
                for threads, rate in rates.items():
                    highest[kind, threads] = max(rate, highest.get((kind, threads), 0))
    name = label(results["machine"])
    rows = [[name, kind, threads, f"{rate / 1e9:,.0f}"] for (kind, threads), rate in highest.items()]
    return table("machine, kernels | registers alone | threads | GFLOP/s", 2, rows)


def summary_table(results: dict) -> Table:
    """Of the cells that have all of SUMMARY, so that a row is of one run."""
    rows = []
    for cell in results["cells"]:
        found = {claim.text: claim for claim in claims(cell, results["machine"])}
        if all(text in found for text in SUMMARY):
            rows.append([*key(results, cell), *(against_bound(found[text]) for text in SUMMARY)])
    return table(f"machine, kernels | model | tokens | {' | '.join(SUMMARY)}", 3, rows)


def claims_table(results: dict) -> Table:
    rows = [
        [*key(results, cell), claim.text, claim.bound, number(claim.measured.median), spread(claim.measured)]
        for cell in results["cells"]
        for claim in claims(cell, results["machine"])
    ]
    return table("machine, kernels | model | tokens | ratio | wanted | median | range", 5, rows)


def steps_table(results: dict) -> Table:
    rows = []
    for cell in results["cells"]:
        for name, answers in cell["answers"].items():
            if "seconds" not in answers[0] or name == MATMUL:
                continue
            taken, times = statistics.median(seconds(cell, name)), ratios(cell, name, MEBP)
            compared = ["", ""] if name == MEBP else [number(times.median), spread(times)]
            speed = [f"{taken:.3f}", f"{cell['tokens'] / taken:,.0f}"]
            rows.append([*key(results, cell), name, *speed, *compared, f"{peak_bytes(cell, name) / 1e6:,.0f}"])
    return table("machine, kernels | model | tokens | who | s | tokens/s | times mebp's | range | peak MB", 4, rows)


def rates_table(results: dict) -> Table:
    rows = []
    for cell in results["cells"]:
        for shape, layers in cell["shapes"].items() if MATMUL in cell["answers"] else ():
            torch, *ours = (
                _median_rate(cell, who, name)
                for who, name in (
                    (MATMUL, shape),
                    (LINEARS, f"linear/{shape}"),
                    (LINEARS, f"linear_input_gradient/{shape}"),
                )
            )
            peak = statistics.median(vector_peak(answer["flops"], cell["threads"]) for answer in cell["answers"][PEAKS])
            shares = ["" if rate is None else f"{rate / peak:.0%}" for rate in ours]
            rates = ["" if rate is None else f"{rate / 1e9:,.0f}" for rate in (torch, *ours)]
            rows.append([*key(results, cell), f"{', '.join(layers)}: {shape}", *rates, *shares])
    ours = "mebp linear | its input gradient | of the vectors' peak | input gradient"
    return table(f"machine, kernels | model | tokens | layers: inputs x outputs | torch | {ours}", 4, rows)


def kernels_table(results: dict) -> Table:
    rows = []
    for cell in results["cells"]:
        if TRACED not in cell["profiles"]:
            continue
        steps, one = (_with_rest(cell, name) for name in (TRACED, ONE_THREAD))
        shares = {kind: statistics.median(step[kind] / sum(step.values()) for step in steps) for kind in steps[0]}
        for kind, share in sorted(shares.items(), key=lambda item: -item[1]):
            if round(share, 3) < LEAST_SHARE:
                break
            scaling = statistics.median(a[kind] / b[kind] for a, b in zip(one, steps, strict=True))
            milliseconds = 1e3 * statistics.median(step[kind] for step in steps)
            rows.append([*key(results, cell), kind, f"{share:.1%}", f"{milliseconds:,.1f}", number(scaling)])
    return table("machine, kernels | model | tokens | kernel | share of a step | ms | one thread / all", 4, rows)


def devices_table(results: dict) -> Table:
    device = results["device"]
    name = f"{device['name']}: {device['description']}"
    rows = []
    for cell in results["cells"]:
        for who, answers in cell["answers"].items():
            taken, times = statistics.median(seconds(cell, who)), ratios(cell, who, MEBP)
            compared = ["", ""] if who == MEBP else [number(times.median), spread(times)]
            on = f", torch on {device['torch']}" if who.startswith("PEFT") else ""
            of_device = max(answer.get("device_bytes", 0) for answer in answers)
            memory = [f"{peak_bytes(cell, who) / 1e6:,.0f}", f"{of_device / 1e6:,.0f}" if of_device else ""]
            speed = [f"{taken:.3f}", f"{cell['tokens'] / taken:,.0f}"]
            rows.append([name, cell["model"], f"{cell['tokens']:,}", who + on, *speed, *compared, *memory])
    columns = "device | model | tokens | who | s | tokens/s | times mebp's | range | process MB | device MB"
    return table(columns, 4, rows)


DEVICE_TABLES = {"devices": (devices_table, 4)}  # as below, of a run with --device
TABLES = {
    "machines": (machine_table, 1),
    "summary": (summary_table, 3),
    "peaks": (peaks_table, 3),
    "claims": (claims_table, 4),
    "steps": (steps_table, 4),
    "rates": (rates_table, 4),
    "kernels": (kernels_table, 4),
}  # with the number of a row's first cells that say what was measured
TOGETHER = {"kernels": 3}  # rows that share so many cells are replaced together: another build may run other kernels


def key(results: dict, cell: dict) -> list[str]:
    return [label(results["machine"]), cell["model"], f"{cell['tokens']:,}"]


def number(value: float) -> str:
    return f"{value:.2f}"


def against_bound(claim: Claim) -> str:
    """The median with what is wanted, bold where it is missed."""
    median = number(claim.measured.median)
    return (f"**{median}**" if claim.is_missed else median) + (f" ({claim.bound})" if claim.bound else "")


def spread(measured: Spread) -> str:
    return f"{number(measured.low)} to {number(measured.high)}"


def _median_rate(cell: dict, who: str, name: str) -> float | None:
    rates = [answer["flops"][name] for answer in cell["answers"].get(who, []) if name in answer["flops"]]
    return statistics.median(rates) if rates else None


def _with_rest(cell: dict, name: str) -> list[dict[str, float]]:
    """Each step's seconds by kernel, and what was in none of them."""
    steps = zip(cell["profiles"][name], seconds(cell, name), strict=True)
    return [kinds | {"no kernel": whole - sum(kinds.values())} for kinds, whole in steps]
