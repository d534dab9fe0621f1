# SPDX-License-Identifier: Apache-2.0
"""The page: charts and tables in the order in which someone asks."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from mebp.files import replaced_file
from mebp.inspect import describe_trained, model_title
from mebp.outputs import MARK
from mebp.plan import Plan
from mebp.report.arena_chart import draw_arena
from mebp.report.frontier_chart import draw_frontier, list_frontier
from mebp.report.lifetimes import Timeline
from mebp.report.measure import Measurement
from mebp.report.step import TrainingStep
from mebp.report.step_chart import draw_step
from mebp.report.svg import element
from mebp.tables import Table, megabytes
from mebp.training.log import Answer

_FOLDER = Path(__file__).parent


def write_report(
    path: Path,
    description: dict,
    measurements: Sequence[Measurement] = (),
    frontier: Sequence[dict] = (),
    answers: Sequence[Answer] = (),
) -> None:
    """Writes the page of a bundle's description (mebp.inspect) to `path`, whole or not at all.

    frontier: other plans of the model (read_frontier), which the page shows beside the bundle's own. answers: of a run.

    Raises mebp.Error where it cannot be written.
    """
    with replaced_file(path, "choose another --html") as unfinished:
        unfinished.write_text(make_page(description, measurements, frontier, answers), encoding="utf-8")


def make_page(
    description: dict,
    measurements: Sequence[Measurement] = (),
    frontier: Sequence[dict] = (),
    answers: Sequence[Answer] = (),
) -> str:
    step = TrainingStep(description)
    name = model_title(description)
    sections = [
        _opening(description, step),
        _over_the_step(step, measurements),
        _planned(description),
        *map(_generating, Plan(description).generation_tables()),
        _measured(description["plan"]["peak_bytes"], measurements),
        *([_answered(answers)] if answers else []),
        *([_frontier(description["plan"]["peak_bytes"], list(frontier))] if frontier else []),
        _programs(description, step),
    ]
    title = f"{name}: planned peak of mebp-run, {megabytes(description['plan']['peak_bytes'])} MB"
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    return whole_page(title, sections, element("div", id="tip") + _data(step) + f"<script>{script}</script>")


def whole_page(title: str, sections: Sequence[str], behind: str = "", more_style: str = "") -> str:
    """A page in mebp's style, of sections that are markup already; `behind` is what follows them."""
    style = (_FOLDER / "page.css").read_text(encoding="utf-8") + more_style
    meta = (
        f'<meta charset="utf-8"><meta name="generator" content="{MARK}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
    )
    head = f"{meta}<title>{escape(title)}</title><style>{style}</style>"
    body = element("main", "\n".join(sections)) + behind
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _opening(description: dict, step: TrainingStep) -> str:
    model, plan = description["model"], description["plan"]
    facts = [
        f"Batch {model['batch']}, up to {model['sequence']:,} tokens, {model['activation']} activations",
        describe_trained(description),
        f"{plan['optimizer']}, {plan['threads']} {'thread' if plan['threads'] == 1 else 'threads'}",
        *_schedule(plan, len(description["blocks"]) - 2),
    ]
    largest = max(step.planned, key=step.planned.get)
    title = escape(model_title(description))
    return (
        f"<h1>{title}: a training step of mebp-run peaks at {megabytes(plan['peak_bytes'])} MB</h1>"
        f"<p>{'; '.join(map(escape, facts))}.</p>"
        "<p>This is the planned peak of the runtime alone, the process mebp-run. <code>mebp train</code> needs more: "
        "it adds Python, the tokenizer and the data, and prints its own plan. The largest part of the peak is "
        f"{escape(largest)}, {megabytes(step.planned[largest])} MB. The {megabytes(description['weights_bytes'])} MB "
        "of frozen weights are mapped from disk and only read. The system can drop their pages at any time, so the "
        "peak does not include them.</p>"
    )


def _answered(answers: Sequence[Answer]) -> str:
    """What the model said of each prompt, as it learned."""
    parts = ["<h2>What it answered</h2>", "<p>The likeliest answers of the model after so many steps.</p>"]
    for prompt in dict.fromkeys(each.prompt for each in answers):
        rows = [[f"{each.step:,}", each.answer] for each in answers if each.prompt == prompt]
        parts.append(f"<h3>{escape(prompt)}</h3>{scrolled(Table('', ['step', 'answer'], rows)._repr_html_())}")
    return "".join(parts)


def scrolled(content: str) -> str:
    """What is wider than a phone's screen scrolls by itself, not with the page."""
    return element("div", content, class_="wide")


def _schedule(plan: dict, layers: int) -> list[str]:
    facts = [f"{plan['chunk']:,} tokens at a time"] if plan["chunk"] else []
    spacing = max(1, min(plan["spacing"], layers))
    if plan["spill_checkpoints"]:
        more = ", what is trained and the optimizer's state" if plan["spill_optimizer"] else ""
        facts.append(f"writes the layers' inputs{more} to disk, {megabytes(plan['file_bytes'])} MB in each step")
    elif spacing > 1:
        facts.append(f"keeps the inputs of {layers // spacing + spacing - 1} of {layers} layers")
    if plan["budget_bytes"]:
        facts.append(f"chosen for a budget of {megabytes(plan['budget_bytes'])} MB")
    return facts


def _over_the_step(step: TrainingStep, measurements: Sequence[Measurement]) -> str:
    measured = next((each.peak_bytes for each in measurements if each.is_runtime_alone), None)
    legend = "".join(f"<li>{_swatch(name)}{escape(name)}</li>" for name in reversed(step.planned))
    again = any(stage.kind == "recompute" for stage in step.stages)
    return (
        "<h2>Memory in use over one step</h2>"
        "<p>Each run of a block is one column. All columns have the same width, whatever time they take; within a "
        "column, the kernel calls stand in order. mebp-run reserves all memory once, so it holds the planned peak "
        "from its first step on. The colours show how much of it the step uses at each moment. Point at the chart or "
        "tap it to see the numbers."
        f"{' Outlined columns run a forward again, for checkpoints that were not kept.' if again else ''}</p>"
        f'<ul class="legend">{legend}</ul>{scrolled(draw_step(step, measured))}'
    )


def _planned(description: dict) -> str:
    planned = Plan(description).peak_table()
    rows = []
    for name, size, share, meaning in planned.rows:
        bar = f'<div class="bar arena-{escape(name)}" style="width: {share.replace(" ", "")}"></div>' if share else ""
        kind = ' class="sum"' if name == "peak" else ""
        swatch = _swatch(name) if share else ""
        cells = (
            f'<td>{swatch}{escape(name)}</td><td class="number">{size}</td><td class="number">{share}</td>'
            f'<td class="bars">{bar}</td><td>{escape(meaning)}</td>'
        )
        rows.append(f"<tr{kind}>{cells}</tr>")
    head = '<tr><th>what</th><th class="number">MB</th><th class="number">share</th><th></th><th></th></tr>'
    return "<h2>What the peak is made of</h2>" + scrolled(f'<table id="plan">{head}{"".join(rows)}</table>')


def _generating(table: Table) -> str:
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="number">{size}</td><td>{escape(meaning)}</td></tr>'
        for name, size, meaning in table.rows
    )
    head = '<tr><th>what</th><th class="number">MB</th><th></th></tr>'
    return f"<h2>{escape(table.title[0].upper() + table.title[1:])}</h2>" + scrolled(
        f'<table id="generation">{head}{rows}</table>'
    )


def _measured(planned: int, measurements: Sequence[Measurement]) -> str:
    if not measurements:
        return (
            "<h2>Planned and measured</h2><p>Nothing was measured for this page. With <code>--measure</code>, mebp "
            "runs one step and shows its peak here; with <code>--log run.jsonl</code>, it shows that run's peak.</p>"
        )
    most = max(planned, *(each.peak_bytes for each in measurements))
    rows = [_measured_row("plan", planned, "", "what mebpc computed for the runtime alone", most)]
    for each in measurements:
        difference = f"{(each.peak_bytes - planned) / planned:+.1%}" if each.is_runtime_alone else ""
        rows.append(_measured_row(each.name, each.peak_bytes, difference, each.meaning, most))
    head = '<tr><th>process</th><th class="number">MB</th><th class="number">to the plan</th><th></th><th></th></tr>'
    return (
        "<h2>Planned and measured</h2><p>Each number counts all memory that the process allocated or wrote.</p>"
        + scrolled(f'<table id="measured">{head}{"".join(rows)}</table>')
    )


def _measured_row(name: str, size: int, difference: str, meaning: str, most: int) -> str:
    kind = "planned" if name == "plan" else "measured"
    return (
        f'<tr><td>{escape(name)}</td><td class="number">{megabytes(size)}</td><td class="number">{difference}</td>'
        f'<td class="bars"><div class="bar {kind}" style="width: {100 * size / most:.1f}%"></div></td>'
        f"<td>{escape(meaning)}</td></tr>"
    )


def _frontier(peak_bytes: int, points: list[dict]) -> str:
    return (
        "<h2>What other budgets buy</h2><p>Each point is the plan that <code>mebpc --memory-budget</code> chooses "
        "with so much memory. The large one is this bundle's, if it is among them. Times are predicted. Point at one "
        "to see what it is.</p>" + scrolled(draw_frontier(points, peak_bytes)) + scrolled(list_frontier(points))
    )


def _programs(description: dict, step: TrainingStep) -> str:
    """The program in which the most is in use first, and open."""
    first = step.fullest.program
    order = sorted(step.timelines, key=lambda number: (number != first, -max(step.timelines[number].live_bytes)))
    parts = []
    for number in order:
        program, timeline = description["programs"][number], step.timelines[number]
        if not timeline.tensors:
            continue
        blocks = [block["name"] for block in description["blocks"] if number in block["programs"].values()]
        runs = (
            f"run by {len(blocks)} blocks, layers named as in the first" if len(blocks) > 1 else f"run by {blocks[0]}"
        )
        summary = (
            f"<summary><b>{escape(program['name'])}</b>: {megabytes(max(timeline.live_bytes))} MB at most, "
            f"{escape(runs)}</summary>"
        )
        chart = scrolled(draw_arena(timeline, program["arena_bytes"], program["name"]))
        opened = " open" if number == first else ""
        parts.append(f"<details{opened}>{summary}{chart}{_tensors(timeline)}</details>")
    return (
        "<h2>Inside the scratch arena</h2><p>Kernel calls run from left to right, and addresses grow upwards. Each box "
        "is a tensor: its height is its size, its place is where the compiler put it, and it lasts as long as "
        "something reads it. The strong ones are in use where the program needs the most; the table below lists "
        "them. Loops are drawn once. What they carry from one iteration to the next is called <code>carried</code> "
        "inside and <code>loop</code> after them.</p>"
        f"{''.join(parts)}"
    )


def _tensors(timeline: Timeline) -> str:
    alive = timeline.alive_at(timeline.fullest)
    most = max(tensor.bytes for tensor in alive)
    rows = "".join(
        f'<tr><td>{escape(tensor.op)}</td><td class="number">{tensor.bytes / 1e6:.3f}</td>'
        f'<td class="bars"><div class="bar arena-scratch" style="width: {100 * tensor.bytes / most:.1f}%"></div></td>'
        f"<td>{escape(tensor.source)}</td></tr>"
        for tensor in alive
    )
    head = '<tr><th>made by</th><th class="number">MB</th><th></th><th>layer</th></tr>'
    return scrolled(f'<table class="alive">{head}{rows}</table>')


def _swatch(name: str) -> str:
    return f'<i class="swatch arena-{escape(name)}"></i>'


def _data(step: TrainingStep) -> str:
    """What page.js shows under the pointer."""
    data = {
        "stages": [
            {"title": stage.title, "program": stage.program, "inUse": step.in_use(stage, 0)} for stage in step.stages
        ],
        "programs": {
            number: {"ops": timeline.ops, "scratch": timeline.live_bytes} for number, timeline in step.timelines.items()
        },
    }
    inert = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # no name can end the script
    return f'<script type="application/json" id="data">{inert}</script>'
