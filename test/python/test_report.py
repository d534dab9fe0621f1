# SPDX-License-Identifier: Apache-2.0
"""mebp inspect --html: the page says what the plan says."""

import copy
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import mebp
from mebp.cli import main
from mebp.inspect import inspect
from mebp.report.lifetimes import Timeline
from mebp.report.measure import Measurement
from mebp.report.page import make_page
from mebp.report.step import TrainingStep
from mebp.tables import megabytes
from mebp.tasks import ENCODING
from mebp.tools import find_tool, run_tool
from support import encoders
from support.commands import TIMEOUT
from support.split import make_text_halves
from support.textmodel import make_text_bundle

_BROWSERS = ("chromium", "google-chrome", "chrome")
_VOID = {"meta"}  # elements without an end


@pytest.fixture(scope="module")
def bundles(tmp_path_factory) -> dict[str, Path]:
    """The same three layers: whole sequences and every checkpoint, chunks and every second one, none in memory, and
    values kept for the backward."""
    folder = tmp_path_factory.mktemp("report")
    whole = make_text_bundle(folder, layers=3)
    found = {"whole": whole, "spaced": folder / "spaced.mebp", "spilled": folder / "spilled.mebp"}
    found["kept"] = folder / "kept.mebp"
    mebp.compile(folder / "model.onnx", found["spaced"], checkpoint_spacing=2, chunk_size=8, optimizer="sgd")
    mebp.compile(folder / "model.onnx", found["spilled"], spill="all", chunk_size=8)
    mebp.compile(folder / "model.onnx", found["kept"], memory_budget="1GB")
    return found


@pytest.fixture(scope="module", params=["whole", "spaced", "spilled", "kept"])
def found(bundles, request) -> dict:
    return inspect(bundles[request.param])


class _Page(HTMLParser):
    """The text of every element of a kind; fails where the page is not well formed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str]] = []
        self.rows: list[list[str]] = []
        self.titles: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attributes):
        self.attributes += [(name, value or "") for name, value in attributes]
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        if self._open and self._open[-1] == "title":
            self.titles.append(data)


def refusal(capsys, *arguments: object) -> str:
    assert main(["inspect", *map(str, arguments)]) == 2
    return capsys.readouterr().err.strip()


def test_lifetimes_of_a_loop():
    # 0 comes in; 1 is read in the loop by a slice of it, so it lives until the loop's end; 3 is a slice; 4 and 7 are
    # what 5 is carried from and to; 6 lives within a trip.
    def place(size, offset=None):
        where = {"placement": "bound"} if offset is None else {"placement": "arena", "offset": offset}
        return {"bytes": size, "source": "", **where}

    loop = {
        "op": "loop",
        "domain": "sequence",
        "size": 8,
        "carried": [{"initial": 4, "argument": 5, "yielded": 7, "result": 8}],
        "steps": [
            {"op": "slice", "reads": [1], "writes": [3]},  # position 3
            {"op": "linear", "reads": [3], "writes": [6]},  # 4
            {"op": "add", "reads": [5, 6], "writes": [7]},  # 5
        ],
    }
    program = {
        "takes": [{"kind": "flow", "name": "hidden", "value": 0}],
        "tensors": [
            place(999),
            place(100, 64),
            place(1),
            {"bytes": 50, "source": "", "placement": "view"},
            *(place(10, 0), place(10, 0), place(7, 192), place(10, 0), place(10, 0)),
        ],
        "order": [
            {"op": "rms_norm", "reads": [0], "writes": [1]},  # 1
            loop,  # 2 to 6
            {"op": "silu", "reads": [8], "writes": [2]},  # 7
        ],
    }
    timeline = Timeline(program)
    assert timeline.ops == ["", "rms_norm", "loop", "slice", "linear", "add", "loop", "silu"]
    assert timeline.live_bytes == [0, 100, 110, 110, 117, 117, 110, 10]
    assert timeline.fullest == 4
    assert [tensor.bytes for tensor in timeline.alive_at(5)] == [100, 10, 7]


def test_the_fullest_moment_is_the_compilers(found):
    largest = max(range(len(found["programs"])), key=lambda number: found["programs"][number]["arena_bytes"])
    timeline = Timeline(found["programs"][largest])
    alive = [
        {"name": tensor.op, "bytes": tensor.bytes, "source": tensor.source}
        for tensor in timeline.alive_at(timeline.fullest)
    ]
    assert alive == found["plan"]["at_peak"]


def test_no_arena_is_ever_over_its_plan(found):
    step = TrainingStep(found)
    assert sum(step.planned.values()) == found["plan"]["peak_bytes"]
    highest = dict.fromkeys(step.planned, 0)
    for stage in step.stages:
        for position in range(len(step.timelines[stage.program].ops)):
            in_use = step.in_use(stage, position)
            highest = {name: max(most, in_use[name]) for name, most in highest.items()}
            assert sum(in_use.values()) <= step.most_in_use
    assert all(highest[name] <= planned for name, planned in step.planned.items())
    assert step.most_in_use <= found["plan"]["peak_bytes"]
    assert highest["cotangents"] == step.planned["cotangents"]
    if found["plan"]["spacing"] == 1 and not found["plan"]["spill_checkpoints"]:
        assert highest["checkpoints"] == step.planned["checkpoints"], "all are there when the loss is"
    assert step.most_in_use == found["plan"]["live_bytes"]


def test_stages_with_every_second_checkpoint(bundles):
    stages = TrainingStep(inspect(bundles["spaced"])).stages
    first, second, third = (f"model.layers.{layer}" for layer in range(3))
    assert [(stage.kind, stage.block) for stage in stages] == [
        ("forward", "embed"),
        ("forward", first),
        ("forward", second),
        ("forward", third),
        ("objective", "head"),
        ("backward", third),
        ("backward", second),
        ("recompute", "embed"),
        ("backward", first),
    ]
    one = stages[0].checkpoints
    # The embedding goes once the first layer has read it, and is there again for that one's backward.
    assert [stage.checkpoints // one for stage in stages] == [1, 2, 2, 2, 2, 2, 1, 1, 1]
    # The head's input, and then its cotangent and that of each layer's input in its place.
    assert [stage.cotangents // one for stage in stages] == [0, 0, 0, 1, 1, 1, 1, 1, 1]


def test_stages_with_checkpoints_in_a_file(bundles):
    stages = TrainingStep(inspect(bundles["spilled"])).stages
    assert {stage.checkpoints for stage in stages} == {0}
    assert len({stage.cotangents for stage in stages}) == 1


def test_stages_with_kept_values(bundles):
    """They are there from a layer's forward to its backward."""
    step = TrainingStep(inspect(bundles["kept"]))
    one = step.planned["kept"] // 3
    assert one > 0 and step.planned["kept"] == 3 * one
    assert [stage.kept // one for stage in step.stages] == [0, 1, 2, 3, 3, 3, 2, 1]


def test_page_shows_what_other_budgets_buy(bundles, tmp_path, capsys):
    plans, page = tmp_path / "plans.json", tmp_path / "report.html"
    exported = bundles["whole"].parent / "model.onnx"
    run_tool([find_tool("mebpc"), str(exported), "--frontier", "--plan-json", str(plans)])
    points = json.loads(plans.read_text())["frontier"]
    assert main(["inspect", str(bundles["kept"]), "--html", str(page), "--frontier", str(plans)]) == 0
    shown = page.read_text()
    assert shown.count('class="point"') == len(points) - 1 and shown.count('class="point own"') == 1
    last = points[-1]
    row = next(row for row in reversed(_Page(shown).rows) if len(row) == 5 and row[2].startswith("whole"))
    assert row[0] == f"{last['peak_bytes'] / 1e6:.2f}" and row[4] == last["kept_values"] != ""
    capsys.readouterr()
    odd = [{key: 7} for key in ("spill", "kept_values", "description")]
    odd += [{key: "7"} for key in ("file_bytes", "peak_bytes")]
    odd += [{"seconds": 0}, {"seconds": float("nan")}, {"peak_bytes": -1}, {"file_bytes": [8]}, {"kept_values": None}]
    changed = [json.dumps({"frontier": [points[0] | each]}) for each in odd]
    for content in ("{}", "[]", '{"frontier": [{"peak_bytes": 1}]}', "no JSON", "[" * 100_000, *changed):
        plans.write_text(content)
        assert refusal(capsys, bundles["kept"], "--html", page, "--frontier", plans) == (
            f"mebp: --frontier {plans}: is not what mebpc --frontier --plan-json FILE writes"
        )
    missing = tmp_path / "none.json"
    line = refusal(capsys, bundles["kept"], "--html", page, "--frontier", missing)
    assert line == f"mebp: --frontier {missing}: No such file or directory"
    line = refusal(capsys, bundles["kept"], "--frontier", plans)
    assert line == "mebp: --frontier needs --html FILE, the page to show it on"


def test_page_has_the_plans_numbers_and_refers_to_nothing_outside(found):
    page = make_page(found)
    parsed = _Page(page)
    plan = found["plan"]
    for name, size in [("peak", plan["peak_bytes"])] + [(each["name"], each["bytes"]) for each in plan["buffers"]]:
        assert [name, f"{size / 1e6:,.2f}"] in [row[:2] for row in parsed.rows], name
    for tensor in plan["at_peak"]:
        assert [tensor["name"], f"{tensor['bytes'] / 1e6:.3f}", "", tensor["source"]] in parsed.rows
    step = TrainingStep(found)
    assert f"most in use: {step.most_in_use / 1e6:,.2f} MB, {step.fullest.title}<" in page
    assert not re.search(r"https?:|//[a-z]|@import|url\(", re.sub(r"// SPDX.*", "", page))
    assert not {name for name, _ in parsed.attributes} & {"src", "href", "xlink:href"}


def test_the_title_says_whose_peak_it_is(found):
    page, name = make_page(found), Path(found["model"]["name"]).name
    peak = f"{found['plan']['peak_bytes'] / 1e6:,.2f} MB"
    assert f"<title>{name}: planned peak of mebp-run, {peak}</title>" in page
    assert f"<h1>{name}: a training step of mebp-run peaks at {peak}</h1>" in page


def test_names_are_text(found):
    found = copy.deepcopy(found)
    name = "</script><script>&"
    found["model"]["name"] = found["blocks"][1]["name"] = name
    page = make_page(found)
    _Page(page)
    assert name not in page and "&lt;/script&gt;" in page


# What the page looks up; all other strings of a description are shown, and may be anything.
_LOOKED_UP = {"kind", "storage", "placement", "role", "activation"}
_HOSTILE = "</script></style></title><script>alert(1)</script><!--<img src=x onerror=alert(1)>-->\"'&amp;&lt;]]>\\u003c"


def _named(value: object, suffix: str, key: str = "") -> object:
    """The same with `suffix` behind every string that is a name."""
    if isinstance(value, dict):
        return {name: _named(each, suffix, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_named(each, suffix, key) for each in value]
    structural = key in _LOOKED_UP or (key == "op" and value in ("loop", "slice")) or key == "manifest"
    return value + suffix if isinstance(value, str) and not structural else value


class _Elements(HTMLParser):
    """Every tag with the names of its attributes, every attribute's value, and the text of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, ...]] = []
        self.values: list[str] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, *(name for name, _ in attributes)))
        self.values += [value or "" for _, value in attributes]
        self._in_script = tag == "script"

    def handle_endtag(self, tag):
        self.tags.append((f"/{tag}",))
        self._in_script = False

    def handle_data(self, data):
        if self._in_script:
            self.scripts.append(data)

    def handle_comment(self, data):
        self.tags.append(("comment", data))


def test_no_string_of_a_file_is_markup(found):
    """The page has the same elements whatever names are; in attributes and in the script's data, names are as they
    are."""
    points = [{"peak_bytes": 10**6 * k, "seconds": 1.0 / k, "file_bytes": 0, "spill": "none",
               "description": "whole sequences", "kept_values": "kept"} for k in (1, 2)]  # fmt: skip
    pages = []
    for suffix in ("x" * len(_HOSTILE), _HOSTILE):
        measured = [Measurement(f"mebp-run{suffix}", 10**7, f"one step{suffix}", True)]
        pages.append(_Elements(make_page(_named(found, suffix), measured, _named(points, suffix))))
    plain, hostile = pages
    assert hostile.tags == plain.tags
    assert [len(value) for value in hostile.values] == [len(value) for value in plain.values]
    assert any(_HOSTILE in value for value in hostile.values)  # such as aria-label
    data, script = hostile.scripts
    assert script == plain.scripts[1] and "<" not in data
    assert any(stage["title"].endswith(_HOSTILE) for stage in json.loads(data)["stages"])


def test_command_writes_the_page_with_what_was_measured(bundles, tmp_path, capsys):
    log, page = tmp_path / "run.jsonl", tmp_path / "new" / "report.html"
    record = {"loss": 1.0, "grad_norm": 1.0, "lr": 1e-3, "tokens": 8, "seconds": 1.0}
    lines = [{"step": step, **record, "peak_bytes": peak} for step, peak in [(1, 41_000_000), (2, 43_210_000)]]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["inspect", str(bundles["whole"]), "--html", str(page), "--measure", "--log", str(log)]) == 0
    assert capsys.readouterr().out == f"{page}: open it in a browser\n"
    rows = {row[0]: row for row in _Page(page.read_text()).rows}
    planned = inspect(bundles["whole"])["plan"]["peak_bytes"] / 1e6
    assert rows["plan"][1] == f"{planned:.2f}"
    assert rows["mebp train"][1:3] == ["43.21", ""] and "2 steps in Python" in rows["mebp train"][4]
    measured = float(rows["mebp-run"][1])
    assert 0 < measured < 2 * planned
    assert float(rows["mebp-run"][2].rstrip("%")) == pytest.approx(100 * (measured / planned - 1), abs=0.5)
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]


def test_page_goes_with_json(bundles, tmp_path, capsys):
    assert main(["inspect", str(bundles["whole"]), "--json", "--html", str(tmp_path / "report.html")]) == 0
    assert json.loads(capsys.readouterr().out)["plan"] and (tmp_path / "report.html").exists()


def test_refusals(bundles, tmp_path, capsys, monkeypatch):
    bundle, page = bundles["whole"], tmp_path / "report.html"
    assert refusal(capsys, bundle, "--measure") == "mebp: --measure needs --html FILE, the page to show it on"
    assert refusal(capsys, bundle, "--log", page) == "mebp: --log needs --html FILE, the page to show it on"
    taken = tmp_path / "taken.html"
    taken.mkdir()
    assert refusal(capsys, bundle, "--html", taken) == f"mebp: --html {taken}: something else is there; choose another"
    log = tmp_path / "run.jsonl"
    log.write_text("loss 1\n")
    assert refusal(capsys, bundle, "--html", page, "--log", log) == (
        f"mebp: {log}: is not a log of mebp train; choose another --log"
    )
    assert refusal(capsys, bundle, "--html", page, "--log", tmp_path / "none.jsonl") == (
        f"mebp: {tmp_path / 'none.jsonl'}: cannot be read (No such file or directory); choose another --log"
    )
    log.write_text('{"step": 1, "eval_loss": 2.0}\n')
    assert refusal(capsys, bundle, "--html", page, "--log", log) == (
        f"mebp: --log {log}: has no steps yet; give the log of a run that has begun"
    )
    tool = tmp_path / "mebp-run"
    tool.write_text("#!/bin/sh\necho a warning >&2\necho 'mebp-run: no memory' >&2\nexit 2\n")
    tool.chmod(0o755)
    monkeypatch.setenv("MEBP_TOOLS", str(tmp_path))
    assert refusal(capsys, bundle, "--html", page, "--measure") == "mebp: --measure: mebp-run: no memory"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mebp-run", "run.jsonl", "taken.html"]


@pytest.fixture
def browse(tmp_path):
    """Runs a headless browser with options on a page; returns what it prints."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if not browser:
        pytest.skip(f"no browser to look at the page with: none of {', '.join(_BROWSERS)} is on PATH")

    def run(page: Path, *options: str, width: int = 1000) -> str:
        command = [
            browser,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
        ]
        command += [f"--window-size={width},1200", *options, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True).stdout

    return run


# Kinds of bundles, by what makes them of the three layers' graph.
KINDS = {
    "generating": {"generate_len": 48},
    "packing": {"packing": True},
    "full": {"train": "full", "weights": "f32"},
    "galore": {"train": "full", "weights": "f32", "optimizer": "galore", "galore_rank": 4},
    "mezo": {"optimizer": "mezo"},
    "clipping": {"accumulate": True, "clip": True},
    "dpo": {"objective": "dpo"},
    "orpo": {"objective": "orpo"},
    "grpo": {"objective": "grpo", "generate_len": 48, "entropy_bonus": True},
    "ppo": {"objective": "ppo", "value_head": True, "value_adapter": True},
    "mlx": {"device": "mlx-cpu"},
    "private-lora": {"adapter": mebp.PrivateLoRA(rank_down=4, rank_up=4)},
}


HALVES = ("edge", "cloud")


@pytest.fixture(params=[*KINDS, *HALVES, *ENCODING])
def any_kind(request, bundles, tmp_path) -> Path:
    name, made = request.param, tmp_path / "made.mebp"
    if name in ENCODING:
        model = encoders.build("bert", task=name, num_hidden_layers=1)
        mebp.export(model, tmp_path / "model.onnx", seq_len=8, batch=1, task=name)
        mebp.compile(tmp_path / "model.onnx", made)
        return made
    if name in HALVES:
        return make_text_halves()[1 + HALVES.index(name)]
    mebp.compile(bundles["whole"].parent / "model.onnx", made, **KINDS[name])
    return made


def test_each_kind_of_bundle_has_a_page(any_kind, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert main(["inspect", str(any_kind), "--html", str(page)]) == 0, capsys.readouterr().err
    text = page.read_text()
    found, rows = inspect(any_kind), _Page(text).rows
    assert ["peak", megabytes(found["plan"]["peak_bytes"])] in [row[:2] for row in rows]
    step = TrainingStep(found)
    for stage in step.stages:
        for position in range(len(step.timelines[stage.program].ops)):
            assert all(size <= step.planned[name] for name, size in step.in_use(stage, position).items())
    assert bool(found["plan"]["generation"]) == ('id="generation"' in text)
    if found["plan"]["generation"]:
        assert ["peak", megabytes(found["plan"]["generation_peak_bytes"])] in [row[:2] for row in rows]


def test_a_browser_finds_no_error_on_any_page(any_kind, tmp_path, browse):
    page = tmp_path / "report.html"
    assert main(["inspect", str(any_kind), "--html", str(page)]) == 0
    page.write_text("<script>onerror = error => document.title = `error: ${error}`</script>" + page.read_text())
    assert "<title>error" not in browse(page, "--dump-dom")


def test_a_browser_draws_it(bundles, tmp_path, browse):
    found = inspect(bundles["whole"])
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    page.write_text(make_page(found))
    browse(page, f"--screenshot={picture}")
    pixels = matplotlib.image.imread(picture)[:, :, :3]
    scratch, optimizer = (np.array(colour) / 255 for colour in ((0xE0, 0x71, 0x4F), (0xA9, 0xCB, 0xEB)))
    for colour in (scratch, optimizer):  # as page.css has them in the light
        assert np.isclose(pixels, colour, atol=0.02).all(axis=2).mean() > 0.001


def test_a_browser_tells_what_is_under_the_pointer(bundles, tmp_path, browse):
    found = inspect(bundles["whole"])
    step = TrainingStep(found)
    timeline = step.timelines[step.fullest.program]
    where = (step.stages.index(step.fullest) + (timeline.fullest + 0.5) / len(timeline.ops)) / len(step.stages)
    point = (
        'const o = document.getElementById("over"), b = o.getBoundingClientRect();'
        f"const at = {{clientX: b.left + b.width * {where}, clientY: b.top + 9}};"
        'o.dispatchEvent(new PointerEvent("pointermove", at));'
    )
    page = tmp_path / "report.html"
    page.write_text(make_page(found).replace("</body>", f"<script>{point}</script></body>"))
    shown = browse(page, "--dump-dom")
    most = f"{step.most_in_use / 1e6:.2f}"
    assert f"most in use: {most} MB" in shown
    assert f"<strong>{step.fullest.title}: {timeline.ops[timeline.fullest]}</strong>" in shown
    assert f"<span>in use, MB</span><b>{most}</b>" in shown


def test_a_phone_shows_letters_that_can_be_read(bundles, tmp_path, browse):
    """Charts and tables scroll by themselves, and the page does not."""
    page = tmp_path / "report.html"
    measure = """
        const sizes = (chosen, size) => [...document.querySelectorAll(chosen)].map(size);
        const letters = sizes("svg text", (each) => each.getBoundingClientRect().height);
        const charts = sizes("svg", (each) => each.parentElement.clientWidth);
        const page = document.documentElement.scrollWidth;
        document.title = JSON.stringify({page, screen: window.innerWidth, letters, charts});
    """
    page.write_text(make_page(inspect(bundles["whole"])).replace("</body>", f"<script>{measure}</script></body>"))
    for width in (500, 1280):  # no browser without a display makes a smaller window
        (title,) = re.findall("<title>(.*?)</title>", browse(page, "--dump-dom", width=width))
        found = json.loads(title)
        assert found["page"] <= found["screen"] == width, found
        assert min(found["letters"]) >= 11 and max(found["charts"]) < width, found
