# SPDX-License-Identifier: Apache-2.0
"""Draws data_way.svg, the picture in ../architecture.md: `python3 docs/images/draw_data_way.py`."""

from html import escape
from pathlib import Path

WIDTH, HEIGHT = 1160, 850
INK, SOFT, LINE = "#1f2933", "#52606d", "#7b8794"
PLAIN, NN, TRAIN, EXEC, DATA = "#f5f7fa", "#dcebfa", "#e2f3e4", "#fdebd2", "#fff7d6"


class Picture:
    """Collects shapes; coordinates are pixels from the upper left."""

    def __init__(self) -> None:
        self.shapes: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: int = 13,
        bold: bool = False,
        anchor: str = "start",
        colour: str = INK,
    ) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self.shapes.append(
            f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>'
            f"{escape(words)}</text>"
        )

    def box(self, x: float, y: float, width: float, height: float, fill: str, dashed: bool = False) -> None:
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.shapes.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="{LINE}"{dash}/>'
        )

    def card(self, x: float, y: float, width: float, height: float, fill: str, title: str, *lines: str) -> None:
        """A box with a bold title and lines below it."""
        self.box(x, y, width, height, fill)
        self.text(x + 12, y + 21, title, bold=True)
        for number, line in enumerate(lines):
            self.text(x + 12, y + 40 + 16 * number, line, size=12, colour=SOFT)

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        path = " ".join(f"{x},{y}" for x, y in points)
        self.shapes.append(
            f'<polyline points="{path}" fill="none" stroke="{SOFT}" stroke-width="1.6"{dash} marker-end="url(#head)"/>'
        )

    def save(self, path: Path) -> None:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n'
            f'<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{SOFT}"/></marker></defs>\n'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n'
        )
        path.write_text(head + "\n".join(self.shapes) + "\n</svg>\n")


def draw_way(picture: Picture) -> None:
    """The upper half: from the model to the adapter."""
    headings = [
        (24, "export", "python/mebp/exporter"),
        (276, "compile", "compiler/, dialects/"),
        (664, "bundle", "format/"),
        (906, "train", "runtime/"),
    ]
    for x, title, folder in headings:
        picture.text(x, 34, title, size=17, bold=True)
        picture.text(x, 52, folder, size=12, colour=SOFT)

    picture.card(24, 70, 190, 72, DATA, "Hugging Face model", "config, tokenizer", "*.safetensors")
    picture.card(24, 208, 190, 72, DATA, "model.onnx", "the graph, and where each", "weight lies")
    picture.arrow((119, 142), (119, 206))
    picture.text(128, 180, "torch.onnx", size=12, colour=SOFT)

    stages = [
        ("import", "ONNX nodes become nn ops", NN),
        ("partition", "embed, layers, head", TRAIN),
        ("adapt", "LoRA on linear layers", TRAIN),
        ("autodiff", "a backward for each block", TRAIN),
        ("rewrite", "chunks and tiles become loops", TRAIN),
        ("plan", "kernel calls, places, peak", EXEC),
        ("emit", "serialize, quantize", PLAIN),
    ]
    for number, (name, work, fill) in enumerate(stages):
        y = 70 + 50 * number
        picture.box(276, y, 300, 38, fill)
        picture.text(288, y + 24, name, bold=True)
        picture.text(362, y + 24, work, size=12, colour=SOFT)
        if number:
            picture.arrow((426, y - 12), (426, y - 1))
    picture.arrow((214, 240), (245, 240), (245, 89), (274, 89))
    for y, height, name in [(70, 38, "nn"), (120, 188, "train"), (320, 38, "exec")]:
        picture.shapes.append(f'<path d="M584,{y} h6 v{height} h-6" fill="none" stroke="{LINE}"/>')
        picture.text(597, y + height / 2 + 4, name, size=13, bold=True, colour=SOFT)
    picture.arrow((64, 142), (64, 176), (10, 176), (10, 389), (274, 389), dashed=True)
    picture.text(24, 382, "weights, a megabyte at a time", size=12, colour=SOFT)

    picture.box(652, 70, 206, 338, "white")
    picture.text(664, 93, "NAME.mebp/", bold=True)
    picture.card(664, 106, 182, 62, PLAIN, "manifest.json", "name, options")
    picture.card(
        664,
        178,
        182,
        112,
        PLAIN,
        "program.pb",
        "blocks and what they bind",
        "programs: values, steps,",
        "loops, places",
        "plan",
    )
    picture.card(664, 306, 182, 80, PLAIN, "weights.bin", "int4, int8, bf16, f32", "a region for each block")
    picture.arrow((576, 389), (638, 389), (638, 236), (650, 236))

    picture.card(906, 70, 230, 62, PLAIN, "bundle", "checks once, maps the weights")
    picture.card(906, 148, 230, 78, PLAIN, "train", "checkpoints, order of a step,", "adapter and state files")
    picture.card(906, 242, 108, 74, PLAIN, "exec", "interprets", "programs")
    picture.card(1028, 242, 108, 74, PLAIN, "optim", "SGD, AdamW")
    picture.card(906, 332, 108, 74, PLAIN, "backends", "cpu kernels")
    picture.card(1028, 332, 108, 74, DATA, "results", "PEFT adapter", "state, log")
    picture.arrow((858, 101), (904, 101))
    picture.arrow((1021, 132), (1021, 146))
    picture.arrow((960, 226), (960, 240))
    picture.arrow((1082, 226), (1082, 240))
    picture.arrow((960, 316), (960, 330))
    picture.arrow((1136, 190), (1148, 190), (1148, 369), (1138, 369))


def draw_step(picture: Picture) -> None:
    """The lower half: the blocks of one training step, forward and back."""
    picture.text(24, 466, "a training step", size=17, bold=True)
    picture.text(
        176,
        466,
        "every block's input is kept; a backward program recomputes the rest of its block from it",
        size=12,
        colour=SOFT,
    )
    columns = [(24, "embed"), (244, "layer 0"), (464, "layer 1, 2, …"), (684, "layer n−1"), (904, "head")]
    width, forward, backward = 132, 520, 640
    picture.text(24, 506, "token ids", size=12, colour=SOFT)
    for number, (x, name) in enumerate(columns):
        is_head = number == len(columns) - 1
        if is_head:
            picture.box(x, forward, 232, 176, EXEC)
            picture.text(x + 12, forward + 24, "head: objective", bold=True)
            lines = [
                "tiles of rows and vocabulary:",
                "running softmax, no whole logits;",
                "one sweep gives the loss",
                "and the first cotangent",
            ]
            for line, words in enumerate(lines):
                picture.text(x + 12, forward + 50 + 18 * line, words, size=12, colour=SOFT)
            picture.text(x + 12, forward + 150, "reads labels, 1 / their number", size=12, colour=SOFT)
            continue
        picture.box(x, forward, width, 56, NN)
        picture.text(x + 12, forward + 24, name, bold=True)
        picture.text(x + 12, forward + 43, "forward", size=12, colour=SOFT)
        right = x + width
        picture.arrow((right, forward + 28), (columns[number + 1][0] - 2, forward + 28))
        picture.text(right + 44, forward + 18, "checkpoint", size=12, anchor="middle", colour=SOFT)
        if number:
            picture.box(x, backward, width, 56, TRAIN)
            picture.text(x + 12, backward + 24, name, bold=True)
            picture.text(x + 12, backward + 43, "backward", size=12, colour=SOFT)
            picture.arrow((x - 44, forward + 28), (x - 44, backward + 14), (x - 2, backward + 14), dashed=True)
            end = columns[number + 1][0]
            picture.arrow((end, backward + 42), (right + 2, backward + 42))
            picture.text(right + 44, backward + 58, "cotangent", size=12, anchor="middle", colour=SOFT)
            picture.arrow((x + width / 2, backward + 56), (x + width / 2, 748))
            picture.text(x + width / 2 + 8, 726, "gradients", size=12, colour=SOFT)
    picture.box(244, 750, 572, 60, DATA)
    picture.text(256, 774, "gradient sink", bold=True)
    picture.text(
        256,
        795,
        "updates each adapter tensor as soon as its gradient is complete, or keeps it for the caller",
        size=12,
        colour=SOFT,
    )
    picture.text(
        24,
        836,
        "Layers of one structure share one program and bind their own weights. "
        "Frozen weights have no gradient in any program.",
        size=12,
        colour=SOFT,
    )


def main() -> None:
    picture = Picture()
    draw_way(picture)
    draw_step(picture)
    picture.save(Path(__file__).with_name("data_way.svg"))


if __name__ == "__main__":
    main()
