# SPDX-License-Identifier: Apache-2.0
"""The page of a judgement: figures first, then the answers that changed most, then all of them."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from mebp.files import replaced_file
from mebp.judging.gates import Condition
from mebp.judging.judgement import MOST_CHANGED, Answer, Judgement, Side
from mebp.merging.served import ServedLosses
from mebp.report.page import scrolled, whole_page
from mebp.report.svg import element
from mebp.tables import Table
from mebp.words import printable


def write_page(
    path: Path,
    judgement: Judgement,
    names: Sequence[str],
    gate: Sequence[Condition] = (),
    served: ServedLosses | None = None,
) -> None:
    """Writes the page to `path`, whole or not at all; names: of what was judged, as a reader would call it."""
    with replaced_file(path, "choose another --html") as unfinished:
        unfinished.write_text(make_page(judgement, names, gate, served), encoding="utf-8")


def make_page(
    judgement: Judgement, names: Sequence[str], gate: Sequence[Condition] = (), served: ServedLosses | None = None
) -> str:
    title = judgement.headline()
    sections = [
        f"<h1>{escape(title[0].upper() + title[1:])}</h1><p>{escape(', '.join(names))}</p>",
        _figures(judgement),
        *([_served(served)] if served else []),
        *([_gate(judgement, gate)] if gate else []),
        *([_changed(judgement)] if judgement.adapted else []),
        *([_kinds(judgement)] if judgement.base.kinds else []),
        *([_answers(judgement)] if judgement.judged.answers else []),
    ]
    return whole_page(title, sections)


def _figures(judgement: Judgement) -> str:
    forgets = " Forgets is by which share the loss of general text has grown." if judgement.adapted else ""
    return (
        "<h2>Figures</h2><p>Right is the share of answers that are right. A loss is the mean over tokens, in nats; "
        f"perplexity is its exponential, on the right answers.{forgets}</p>"
        f"{scrolled(judgement.table()._repr_html_())}"
    )


def _served(served: ServedLosses) -> str:
    named = [f"loss of the right answers, {served.precision}", "without the adapter", "with it"]
    why = f"<p>The published weights were not measured: {escape(served.unmeasured)}</p>" if served.unmeasured else ""
    table = scrolled(Table("", named, [list(row) for row in served.rows()])._repr_html_())
    return f"<h2>Where it is served</h2>{table}{why}"


def _gate(judgement: Judgement, gate: Sequence[Condition]) -> str:
    rows = [
        [str(each), f"{judgement.figures[each.name]:.4f}", "holds" if each.holds(judgement.figures) else "fails"]
        for each in gate
    ]
    return f"<h2>Gate</h2>{scrolled(Table('', ['condition', 'measured', ''], rows)._repr_html_())}"


def _changed(judgement: Judgement) -> str:
    changes = judgement.changes[:MOST_CHANGED]
    if not changes:
        return "<h2>Answers that changed most</h2><p>The adapter changes no answer.</p>"
    rows = "".join(
        f"<tr><td>{_plain(each.question.shown)}</td>{_answer(each.before)}{_answer(each.after)}</tr>"
        for each in changes
    )
    head = "<tr><th>question</th><th>without the adapter</th><th>with it</th></tr>"
    return (
        "<h2>Answers that changed most</h2><p>First those that became right or wrong, then those that have the least "
        f"text in common.</p>{_table(head + rows)}"
    )


def _kinds(judgement: Judgement) -> str:
    base, adapted = judgement.base.kinds, judgement.adapted
    if adapted is None:
        columns, rows = ["kind", "loss"], [[kind, f"{loss:.4f}"] for kind, loss in base.items()]
    else:
        columns = ["kind", "without", "with the adapter", "grown by"]
        rows = [
            [kind, f"{loss:.4f}", f"{adapted.kinds[kind]:.4f}", f"{adapted.kinds[kind] / loss - 1:+.1%}"]
            for kind, loss in base.items()
        ]
    return (
        "<h2>General text</h2><p>The loss by the kind of text, none of which is about what was trained: where the "
        f"model forgets.</p>{scrolled(Table('', columns, rows)._repr_html_())}"
    )


def _answers(judgement: Judgement) -> str:
    sides: list[Side] = [judgement.base, judgement.adapted] if judgement.adapted else [judgement.base]
    rows = "".join(
        f"<tr><td>{_plain(judgement.questions[index].shown)}</td>"
        f"{''.join(_answer(side.answers[index]) for side in sides)}</tr>"
        for index in judgement.judged.answers
    )
    heads = ["question", *(["without the adapter", "with it"] if judgement.adapted else ["answer"])]
    head = f"<tr>{''.join(f'<th>{each}</th>' for each in heads)}</tr>"
    summary = f"<summary>all {len(judgement.judged.answers):,} answers</summary>"
    return f"<details>{summary}{_table(head + rows)}</details>"


def _plain(text: str) -> str:
    return escape(printable(text))


def _table(content: str) -> str:
    return scrolled(element("table", content, class_="answers"))


def _answer(answer: Answer) -> str:
    kind = "right" if answer.right >= 0.5 else "wrong"
    return f'<td class="{kind}"><b>{answer.word}</b> {_plain(answer.text)}</td>'
