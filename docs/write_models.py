# SPDX-License-Identifier: Apache-2.0
"""Writes docs/models.md from what bench/models.py found: `make docs`, or python docs/write_models.py."""

from pathlib import Path

from mebp.models import OUTCOMES, Models, ModelType, tried_models

PAGE = Path(__file__).resolve().parent / "models.md"
_INTRODUCTION = """\
<!-- written by docs/write_models.py (make docs) from what bench/models.py found; do not edit -->
# Models

{summary}. `mebp models` prints the same list.

`bench/models.py` tries every causal language model type of transformers. It makes a random model of some thousand
parameters, exports it, compiles it to f32, and compares the gradients of all its adapters with those that
transformers and PEFT compute in float64 (`mebp verify`). A type whose gradients all agree is trained exactly; "worst"
is the largest relative error among them. Where what a gradient is the sum of cancels, rounding in f32 may leave more
than 2e-5; up to 1e-4 the reference kernels, which sum in double, then decide. "Text" counts the tokens, of 32 that it
writes greedily in f32, that are transformers' up to the first that is not.

A type is trained exactly only if it is so with every kind of layers that its class has ("layers", where there are
several, by transformers' names), and as every [published configuration](#published-configurations) here has them. If
one is refused, so is the type, and the reason ends with what is trained exactly nevertheless. Of most exact types other
configurations were tried, too (`--variants`), where there are any: embeddings tied or not, one key and value head,
biases, gelu, norms of each head, queries beside keys and values in another order. "Configurations" counts those that
are exact, published ones among them, and "not so" says which variants are refused. Yet another configuration may need
something that none of these does: the exporter and the compiler then refuse it in one line.

Models that take images with their text (gemma3, mistral3, qwen3_vl and others) are tried whole: what is trained is
their text.

Types with a task behind them are encoders with a head for it, as `mebp train --task` has it: `classify` tells texts
apart, `token-classify` words, and `fill-mask` predicts masked tokens.
"""
_OTHER_EXPORTERS = """\
## Graphs of other exporters

`mebpc` also reads what `torch.onnx.export` writes of a transformers model, by either of its exporters, in opsets 18 to
23, with fixed or symbolic sizes (`test/e2e/test_plain_onnx.py` compares logits). Beside input_ids it may read
attention_mask and position_ids: rows are whole sequences, so these are bound to ones and to 0, 1, 2, ... A linear layer
whose weight has lost its name gets that of its module. One line refuses a cache, a mask of another shape, and tables of
cosines that the exporter has computed already: with fixed sizes, give it `optimize=False`.
"""
_PUBLISHED = """\
## Published configurations

What came of each configuration that people have published, as `bench/parts/public_shapes.py` has it: its sizes and
counts are reduced, and of its layers one period of their pattern is left, or the first ones up to the last new kind.
Every other field is as published. The sources are public repositories in which the configuration was read.
"""
_BIASES = """\
## Biases by position

BLOOM, MPT and Falcon with `alibi` (falcon-rw) add to a head's score of a key its slope times how far back the key is
(ALiBi). The compiler reads the slopes off the graph, whatever formula they come from: any table that is such a line is
taken, also in graphs of other exporters. Distances are counted within a sample, so packing changes no bias. Export
refuses an MPT whose config.json asks for what transformers does not compute: no biases, or another `alibi_bias_max`
than 8. transformers rounds Falcon's biases to bfloat16 in any precision, so that far keys share one. mebp does not, nor
does `mebp verify`; long texts may differ from transformers' there.
"""
_MEANINGS = {
    "wrong": "It exports and compiles, but at least one gradient disagrees. Do not train these.",
    "unverified": "These train, but `mebp verify` cannot compute the same model in another way.",
    "refused": "Export or compile refuses these in one line, which names what is missing.",
    "failed": "These end with an unexpected error instead of a line that says what is missing.",
    "untried": "No small configuration could be made, or it took too long: nothing is known of these.",
}


def page() -> str:
    models = tried_models()
    parts = [_INTRODUCTION.format(summary=models.summary()), _exact(models)]
    parts += [_section(models, outcome, meaning) for outcome, meaning in _MEANINGS.items() if models.count(outcome)]
    return "\n".join([*parts, _published(models), _BIASES, _OTHER_EXPORTERS])


def _exact(models: Models) -> str:
    rows = [
        f"| {each.name} | {_escape(each.layers)} | {each.configurations} | {each.gradients} | {each.worst:.1e} "
        f"| {_text(each)} | {_escape(each.others)} |"
        for each in _of(models, "exact")
    ]
    head = ["| type | layers | configurations | gradients | worst | text | not so |", "| --- |" + " --- |" * 6]
    return "\n".join(["## Trained exactly", "", *head, *rows, ""])


def _published(models: Models) -> str:
    tried = [(kind, each) for kind in models.types for each in kind.published]
    rows = [
        f"| {each.name} | {kind.name} | {_escape(each.layers)} | {OUTCOMES[each.outcome]} | {_escape(each.reason)} "
        f"| {_escape(each.source)} |"
        for kind, each in sorted(tried, key=lambda pair: pair[1].name.lower())
    ]
    head = ["| configuration | type | layers | outcome | why | source |", "| --- |" + " --- |" * 5]
    return "\n".join([_PUBLISHED, *head, *rows, ""])


def _text(model: ModelType) -> str:
    return "" if ", " in model.name else str(model.text)  # an encoder writes none


def _section(models: Models, outcome: str, meaning: str) -> str:
    title = OUTCOMES[outcome][0].upper() + OUTCOMES[outcome][1:]
    rows = [f"| {each.name} | {_escape(each.layers)} | {_escape(each.reason)} |" for each in _of(models, outcome)]
    head = ["| type | layers | why |", "| --- | --- | --- |"]
    return "\n".join([f"## {title}", "", meaning, "", *head, *rows, ""])


def _of(models: Models, outcome: str) -> list[ModelType]:
    return [each for each in models.types if each.outcome == outcome]


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
