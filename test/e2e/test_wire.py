# SPDX-License-Identifier: Apache-2.0
"""mebp wire says to the byte what crosses between the halves of a split model, and mebpc lists it."""

import json
import subprocess

import numpy as np
import pytest

import mebp
from mebp.cli.main import main
from mebp.remote_adapters import listed_kinds
from mebp.split import Server, connect
from mebp.tools import find_tool
from mebp.wire import HEAD_BYTES, Network, Wire, crossed
from support.commands import TIMEOUT
from support.split import BATCH, LAYERS, SEQUENCE, compile_both

HIDDEN, DOWN, UP, ADAPTED = 96, 5, 7, 3
KEPT = [(0, 0), (1, 1), (2, 0), (0, 1)]
TOKENS = BATCH * SEQUENCE


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("wire")


class Device:
    """Counts what one call lets cross."""

    def __init__(self, edge, cloud) -> None:
        self.stream = connect(edge, Server(cloud, threads=1), records=True)
        self.session = mebp.Session(edge, stream=self.stream, threads=1)

    def during(self, method: str, *given, **options) -> tuple[int, int, int, int]:
        before = np.array(crossed(self.session))
        self.stream.recorded()
        getattr(self.session, method)(*given, **options)
        return tuple(np.array(crossed(self.session)) - before)

    def overhead(self) -> tuple[int, int]:
        """Bytes of heads and of commands' bodies, up and down, since then."""
        frames = self.stream.recorded()
        is_command = [is_up and head[1] != 7 for is_up, head, _ in frames]
        sizes = [
            (is_up, len(head) + len(body) * command)
            for (is_up, head, body), command in zip(frames, is_command, strict=True)
        ]
        return sum(size for is_up, size in sizes if is_up), sum(size for is_up, size in sizes if not is_up)


def counts(crossing) -> tuple[int, int, int, int]:
    return crossing.up_bytes, crossing.down_bytes, crossing.up_messages, crossing.down_messages


def batch(rows: int, labelled: int) -> tuple[np.ndarray, np.ndarray]:
    """Of [2, rows / 2], of which so many rows predict a label."""
    ids = np.random.default_rng(rows).integers(0, 333, (BATCH, rows // BATCH), dtype=np.int32)
    labels = np.full_like(ids, -100)
    labels[:, 1:].flat[:labelled] = ids[:, 1:].flat[:labelled]
    return ids, labels


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_what_crosses(folder, precision, kept):
    _, edge, cloud = compile_both(folder, precision, kept)
    wire, device = Wire(edge), Device(edge, cloud)
    for rows, labelled in ((TOKENS, TOKENS - BATCH), (34, 11), (4, 1)):
        given = batch(rows, labelled)
        step, evaluation = wire.step(rows, labelled), wire.evaluation(rows, labelled)
        assert device.during("step", *given) == counts(step)
        assert device.overhead() == (step.overhead_up_bytes, step.overhead_down_bytes)
        assert device.during("loss", *given) == counts(evaluation)
        assert device.overhead() == (evaluation.overhead_up_bytes, evaluation.overhead_down_bytes)


@pytest.mark.parametrize("kept", KEPT)
def test_what_crosses_in_generation(folder, kept):
    """A prompt goes in passes, each of which the server gives a last row of; behind it a token is one row."""
    _, edge, cloud = compile_both(folder, "bf16", kept)
    wire, device = Wire(edge), Device(edge, cloud)
    for length in (1, 2, 11, 33, 40):
        prompt = batch(2 * length, 0)[0][:1]
        assert device.during("generate", prompt, max_new_tokens=1) == counts(wire.prompt(length))
        three = tuple(np.array(counts(wire.prompt(length))) + 2 * np.array(counts(wire.token())))
        assert device.during("generate", prompt, max_new_tokens=3) == three


@pytest.mark.parametrize("more", [("--share-a",), ("--split-layers=1-2",)])
def test_fewer_messages_and_columns(folder, tmp_path, more):
    _, edge, cloud = compile_both(tmp_path, "bf16", (0, 0), *more)
    wire, device = Wire(edge), Device(edge, cloud)
    given = batch(TOKENS, 50)
    assert device.during("step", *given) == counts(wire.step(TOKENS, 50))
    full = Wire(compile_both(folder, "bf16")[1]).step(TOKENS, 50)
    assert wire.step(TOKENS, 50).down_bytes < full.down_bytes


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_the_formula(folder, precision):
    """Part 1.3 of PrivateLoRA's: bytes a token, with a label for a share of them."""
    wire = Wire(compile_both(folder, precision)[1])
    size = {"f32": 4, "bf16": 2}[precision]
    step = wire.step(TOKENS, 30)
    up = TOKENS * (HIDDEN + LAYERS * ADAPTED * UP + (LAYERS - 1) * ADAPTED * DOWN) + 30 * HIDDEN
    down = TOKENS * (LAYERS * ADAPTED * DOWN + LAYERS * ADAPTED * UP) + 30 * HIDDEN
    assert (step.up_bytes, step.down_bytes) == (size * up, size * down)
    token = wire.token()
    assert token.up_bytes == size * (HIDDEN + LAYERS * ADAPTED * UP)
    assert token.down_bytes == size * (HIDDEN + LAYERS * ADAPTED * DOWN)
    assert token.round_trips == LAYERS + 1
    # One at each layer, one at the top of the forward; on the way back one at each layer.
    assert step.round_trips == 2 * LAYERS + 1


def test_times(folder):
    token = Wire(compile_both(folder)[1]).token()
    seconds = token.seconds(Network(up=2, down=4, rtt=10), compute_ms=3)
    assert seconds["up"] == pytest.approx((token.up_bytes + HEAD_BYTES * (LAYERS + 2) + 4) * 8 / 2e6)
    assert seconds["down"] == pytest.approx((token.down_bytes + HEAD_BYTES * (LAYERS + 1)) * 8 / 4e6)
    assert seconds["round_trips"] == pytest.approx(0.01 * (LAYERS + 1))
    assert seconds["total"] == pytest.approx(sum(seconds[name] for name in ("up", "down", "round_trips")) + 0.003)


def test_command(folder, capsys):
    edge = compile_both(folder)[1]
    assert main(["wire", str(edge), "--up", "60", "--down", "100", "--rtt", "5", "--server-ms", "2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("4 blocks on the server, model.layers.0 to model.layers.3; 0 layers before them")
    assert all(what in said for what in ("training step", "evaluation", "prompt", "decoded token"))
    assert "predicted for 60 Mbit/s up, 100 down, round trips of 5 ms" in said
    assert main(["wire", str(edge), "--json", "--rows", "10", "--labelled", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["split"]["first_block"] == 1
    step = Wire(edge).step(10, 3)
    assert found["crossings"][0]["up_bytes"] == step.up_bytes
    assert "seconds" not in found["crossings"][0]


@pytest.mark.parametrize(
    "options, line",
    [
        (["--up", "5"], "--up and --down go together: give both rates, in Mbit/s"),
        (["--rtt", "5"], "--rtt, --server-ms and --device-ms need --up and --down, the rates in Mbit/s"),
        (["--up", "0", "--down", "1"], "--up 0: give a rate above 0, in Mbit/s"),
        (["--up", "1", "--down", "nan"], "--down nan: give a rate above 0, in Mbit/s"),
        (["--up", "1", "--down", "inf"], "--down inf: give a rate above 0, in Mbit/s"),
        (["--up", "1", "--down", "1", "--rtt", "-1"], "--rtt -1: give a time of at least 0, in ms"),
        (["--up", "1", "--down", "1", "--server-ms", "-1"], "--server-ms -1: give a time of at least 0, in ms"),
        (["--rows", "81"], "--rows 81: the bundle has room for 1 to 80 tokens a step"),
        (["--rows", "8", "--labelled", "9"], "--labelled 9: of 8 rows, 1 to 8 can predict a label"),
        (["--prompt", "0"], "--prompt 0: the bundle has room for 48 positions; give 1 to 48"),
    ],
)
def test_wrong_options(folder, capsys, options, line):
    edge = compile_both(folder)[1]
    capsys.readouterr()  # what the first of these tests is told while it exports
    assert main(["wire", str(edge), *options]) == 2
    assert capsys.readouterr().err == f"mebp: {line}\n"


def test_other_bundles(folder, capsys):
    whole, _, cloud = compile_both(folder)
    assert main(["wire", str(whole)]) == main(["wire", str(cloud)]) == 2
    assert capsys.readouterr().err == (
        f"mebp: {whole}: is a whole model, of which nothing crosses; compile it with --split {listed_kinds()}\n"
        f"mebp: {cloud}: is the server's half; give the device's, NAME.edge.mebp\n"
    )


def explained(folder, *options: str) -> subprocess.CompletedProcess:
    command = [find_tool("mebpc"), folder / "model.onnx", "--plan-only", "--explain-wire", *options]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=TIMEOUT)


def test_mebpc_lists_what_crosses(folder):
    """Layer by layer, to what mebp wire counts."""
    wire = Wire(compile_both(folder, "f32", (1, 1))[1])
    run = explained(folder, "--adapter=private-lora", "--rank-down=5", "--rank-up=7", "--precision=f32",
                    "--generate-len=48", "--split=private-lora", "--device-first=1", "--device-last=1")  # fmt: skip
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    totals = [
        [int(number.replace(",", "")) for number in line.split()[2:]] for line in lines if line.startswith("  all ")
    ]
    (forward_up, forward_down, back_up, back_down, text_up, text_down), step = totals, wire.step()
    assert forward_up[1] + back_up[1] == step.up_bytes and forward_down[1] + back_down[1] == step.down_bytes
    token, prompt = wire.token(), wire.prompt(24)
    assert text_up == [token.up_bytes, prompt.up_bytes] and text_down == [token.down_bytes, prompt.down_bytes]
    row = next(line for line in lines if "compressed rows" in line)
    assert row.split() == ["model.layers.1", "to", "model.layers.2", "compressed", "rows", "down", "15", "f32", "2",
                           "120", f"{2 * TOKENS * 60:,}"]  # fmt: skip


def test_nothing_to_list(folder):
    compile_both(folder)
    run = explained(folder)
    assert (run.returncode, run.stderr) == (
        2,
        "mebpc: --explain-wire: nothing crosses where the model is in one place; give --split "
        f"{listed_kinds()}, or leave it out\n",
    )
