# SPDX-License-Identifier: Apache-2.0
"""Chat templates made by a grammar, most of which try to take too much. Each is rendered or refused by one line of
mebp.Error, within the limits: `python test/fuzz/templates.py --count 10000`. Prints the executions and the findings."""

import argparse
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mebp.data import template_process
from mebp.data.chat_template import ChatTemplate
from mebp.errors import Error

SECONDS, MEMORY, OUTPUT = 0.5, 64_000_000, 1_000_000
SLACK = 10.0  # seconds that a busy machine may take for nothing
PROCESS = 40_000_000  # bytes of the process before it renders anything
TOGETHER = 16  # templates in one file: a process for each would take most of the time

# <name> stands for one of a rule's entries. Those in the first list of a rule lead to no other one.
RULES: dict[str, tuple[list[str], list[str]]] = {
    "number": (
        [
            "0",
            "1",
            "2",
            "-1",
            "7",
            "60",
            "999",
            "4096",
            "99999",
            "10**9",
            "-10**9",
            "2**31",
            "2**63",
            "10**30",
            "0.5",
            "1e308",
        ],
        [
            *("<number> + <number>", "<number> * <number>", "<number> ** <number>", "<number> // <number>"),
            *("(<text>|length)", "(<list>|length)", "(<list>|sum)", "(<number>|abs)", "(<number>|round(<number>))"),
            *("(<text>|int)", "(<text>.count(<text>))", "9**9**9"),
        ],
    ),
    "literal": (
        [
            *(
                "'a'",
                "'abab'",
                "'<B>x</B>'",
                "' x y '",
                "'%s'",
                "'%d%%'",
                "'%9999999d'",
                "'%*d'",
                "'%.9999999f'",
                "'%(a)s'",
            ),
            *("'{}'", "'{:>99999999}'", "'{0.__class__}'", "'{0[a]!r:{1}}'", "'http://a.b/'", "'\\n'", "'\\u2028'"),
            *("'\\ud800'", "'(((('", "'aaaaaaaaaaaaaaaaaaaaaaaa!'", "'\\x1b[2J'", "'%Y %999999999d'"),
        ],
        [],
    ),
    "text": (
        ["<literal>", "n.x", "messages[0].content", "x"],
        [
            *("<text> ~ <text>", "<text> + <text>", "<text> * <number>", "<text> % <any>", "<text>[<number>:<number>]"),
            *("(<text>|center(<number>))", "(<text>|indent(<number>, true))", "(<text>|wordwrap(<number>))"),
            *("(<text>|replace(<text>, <text>))", "(<text>|truncate(<number>))", "(<text>|urlize(<number>))"),
            *(
                "(<text>|format(<any>, <any>))",
                "(<list>|join(<text>))",
                "(<any>|tojson(indent=<number>))",
                "(<any>|pprint)",
            ),
            *("(<any>|tojson(separators=(<text>, <text>)))", "(<text>|<plain>)", "(<any>|string)", "<text>.<method>"),
            *(
                "<text>.ljust(<number>)",
                "<text>.center(<number>, 'x')",
                "<text>.zfill(<number>)",
                "<text>.join(<list>)",
            ),
            *("<text>.expandtabs(<number>)", "<text>.replace(<text>, <text>)", "<text>.format(<any>, <any>)"),
            *(
                "strftime_now(<text>)",
                "lipsum(n=<number>)",
                "m(<any>)",
                "(<any>|xmlattr)",
                "cycler(<any>, <any>).next()",
            ),
        ],
    ),
    "plain": (
        [
            *(
                "capitalize",
                "escape",
                "forceescape",
                "lower",
                "safe",
                "striptags",
                "title",
                "trim",
                "upper",
                "urlencode",
            ),
            *(
                "urlize",
                "string",
                "reverse",
                "random",
                "first",
                "last",
                "wordwrap",
                "filesizeformat",
                "float",
                "nothing",
            ),
        ],
        [],
    ),
    "method": (
        ["capitalize()", "lower()", "splitlines()", "strip()", "swapcase()", "title()", "upper()", "casefold()"],
        [],
    ),
    "list": (
        ["messages", "range(60)", "range(99999)", "[1, 2]", "'abab'", "varargs"],
        [
            *("range(<number>)", "[<any>, <any>]", "(<list> + <list>)", "<list> * <number>", "<text>.split(<text>)"),
            *("(<text>|list)", "(<list>|batch(<number>)|list)", "(<list>|slice(<number>)|list)", "(<list>|sort)"),
            *("(<list>|batch(<number>, <any>)|list)", "(<list>|map('<plain>')|list)", "(<list>|unique|list)"),
            *(
                "(<list>|map(attribute=<literal>)|list)",
                "(<list>|groupby(<literal>))",
                "(<list>|select(<literal>)|list)",
            ),
            *(
                "<list>[<number>:<number>]",
                "({'a': <any>}|dictsort)",
                "{'a': <any>, 'b': <any>}.items()",
                "(<list>|list)",
            ),
            *("(<list>|sum(start=<list>))", "(<list>|reverse|list)"),
        ],
    ),
    "any": (
        [
            "<number>",
            "<literal>",
            "messages",
            "none",
            "loop",
            "caller",
            "self",
            "n",
            "undefined_name",
            "{'a': 1}",
            "tools",
        ],
        [
            *(
                "<text>",
                "<text>",
                "<list>",
                "<list>",
                "<number>",
                "{'a': <any>, 'b': <any>}",
                "(<any>, <any>)",
                "dict(a=<any>)",
            ),
            *(
                "<any>.<attribute>",
                "(<any>|attr('<attribute>'))",
                "<any>['<attribute>']",
                "(<any> if <test> else <any>)",
            ),
            *("joiner(<text>)", "namespace(x=<any>)", "raise_exception(<text>)", "lipsum", "loop.cycle(<any>, <any>)"),
        ],
    ),
    "attribute": (
        [
            *("__class__", "__globals__", "__init__", "__mro__", "__subclasses__", "__builtins__", "__dict__", "mro"),
            *("cr_frame", "f_globals", "gi_code", "gi_frame", "func_code", "content", "index", "last", "length", "a"),
        ],
        [],
    ),
    "test": (
        ["x is defined", "x is string", "loop.last is defined", "true"],
        [
            "<any> is divisibleby(<number>)",
            "<any> in <list>",
            "<text> == <text>",
            "<any> is sameas(<any>)",
            "<any> < <any>",
        ],
    ),
    "body": (["{{ <any> }}", "{{ <text> }}"], ["<statement>", "<statement><body>", "{{ <text> }}<body>"]),
    "statement": (
        ["{% set x = <literal> %}"],
        [
            "{% for x in <list> %}<body>{% endfor %}",
            "{% for x in <list> %}{% for y in <list> %}<body>{% endfor %}{% endfor %}",
            "{% for x in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
            "{% for x in range(60) %}{% set n.x = <text> %}<body>{% endfor %}",
            "{% for x in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x|tojson }}",
            "{% for x in <list> recursive %}<body>{{ loop(<list>) }}{% endfor %}",
            "{% for x in <list> if <test> %}<body>{% else %}<body>{% endfor %}",
            "{% for x in <list> %}<body>{% if <test> %}{% break %}{% endif %}{% continue %}{% endfor %}",
            "{% if <test> %}<body>{% else %}<body>{% endif %}",
            "{% set x = <any> %}<body>",
            "{% set x %}<body>{% endset %}{% set x = x ~ x %}<body>",
            "{% set n.x = <text> %}",
            "{% macro m(y) %}<body>{{ m(y) }}{{ m(y) }}{% endmacro %}{{ m(<any>) }}",
            "{% macro m(y=<any>) %}<body>{% endmacro %}{{ m(<any>) }}",
            "{% macro m(y) %}<body>{{ caller() }}{% endmacro %}{% call m(<any>) %}<body>{% endcall %}",
            "{% filter <plain> %}<body>{% endfilter %}",
            "{% filter indent(<number>) %}<body>{% endfilter %}",
            "{% with y = <any> %}<body>{% endwith %}",
            "{% generation %}<body>{% endgeneration %}",
            "{% autoescape <test> %}<body>{% endautoescape %}",
            "{% include <text> %}",
            "{% import <text> as y %}{{ y }}",
            "{% raw %}{{ x }}{% endraw %}",
        ],
    ),
}
# What may stand within itself as deeply as somebody likes: before, in the middle, after.
NESTED = (
    ("{% if 1 %}", "x", "{% endif %}"),
    ("{% for x in [1] %}", "x", "{% endfor %}"),
    ("{% filter upper %}", "x", "{% endfilter %}"),
    ("{% set x %}", "x", "{% endset %}"),
    ("{{(", "1", ")}}"),
    ("{{[", "1", "]}}"),
    ("{{not ", "x", "}}"),
    ("{{-", "x", "}}"),
    ("{{x", "", ".x}}"),
    ("{{x", "", "|upper}}"),
    ("{{1", "", "+1}}"),
)


class Grammar:
    """Makes templates; the same ones from the same seed."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)

    def template(self) -> str:
        return "{% set n, x = namespace(x='ab'), 'ab' %}{% macro m(y) %}{{ y }}{% endmacro %}" + self._make("body", 7)

    def unlikely(self) -> str:
        """What may be no template: some of one is left out or put elsewhere, or something is nested deeply."""
        text = self.template()
        if self._choose.random() < 0.7:
            start, end, at = (self._choose.randrange(len(text)) for _ in range(3))
            return text[:at] + text[start : start + end % 9] + text[at + end % 5 :]
        before, middle, after = self._choose.choice(NESTED)
        times = self._choose.choice([10, 30, 300, 5000])
        if before.startswith("{{"):
            return "{{ " + before[2:] * (times if middle else 1) + middle + after[:-2] * times + " }}"
        return before * times + middle + after * times

    def _make(self, rule: str, depth: int) -> str:
        ends, others = RULES[rule]
        chosen = self._choose.choice(others if others and depth > 0 and self._choose.random() < 0.8 else ends)
        return re.sub("<([a-z]+)>", lambda name: self._make(name[1], depth - 1), chosen)


class Fuzzer:
    """Renders templates and keeps what is wrong."""

    def __init__(self, folder: Path) -> None:
        # All that is asked of a tokenizer.
        self.folder, self.named_special_tokens, self.settings = folder, {"eos_token": "</s>"}, lambda file: {}
        self.findings: list[str] = []
        self.outcomes = Counter()
        template_process._SECONDS, template_process._MEMORY, template_process._OUTPUT = SECONDS, MEMORY, OUTPUT

    def run(self, sources: Sequence[str]) -> None:
        """Each of them, all in one file if that can be read."""
        if not sources:
            return
        chosen = "".join(
            f"{{%- if messages[0].number == {number} -%}}{source}{{%- endif -%}}"
            for number, source in enumerate(sources)
        )
        (self.folder / "chat_template.jinja").write_text(chosen if len(sources) > 1 else sources[0])
        try:
            started = time.monotonic()
            template = ChatTemplate(self)
        except Error as error:
            if len(sources) > 1:
                self.run(sources[: len(sources) // 2])
                self.run(sources[len(sources) // 2 :])
            else:
                self._check_line(sources[0], error, time.monotonic() - started)
            return
        for number, source in enumerate(sources):
            self._render(template, number, source)

    def _render(self, template: ChatTemplate, number: int, source: str) -> None:
        started = time.monotonic()
        try:
            text = template.render([{"role": "user", "content": "Who?", "number": number}, {"role": "assistant"}])
        except Error as error:
            self._check_line(source, error, time.monotonic() - started)
        except Exception as error:
            self._found(source, f"{type(error).__name__}: {error}")
        else:
            self.outcomes["rendered"] += 1
            if len(text.encode("utf-8", "surrogatepass")) > OUTPUT:
                self._found(source, f"writes {len(text)} characters")
        self._check_time(source, time.monotonic() - started)

    def _check_line(self, source: str, error: Error, seconds: float) -> None:
        line = str(error)
        limit = next((limit for limit in ("seconds", "of memory", "writes more") if limit in line), None)
        self.outcomes[limit or "refused"] += 1
        odd = ("cannot be rendered", "ends the process", "open files")
        if len(line.splitlines()) != 1 or len(line) > 1000 or any(each in line for each in odd):
            self._found(source, line)
        self._check_time(source, seconds)

    def _check_time(self, source: str, seconds: float) -> None:
        if seconds > SECONDS + SLACK:
            self._found(source, f"takes {seconds:.1f} seconds")

    def _found(self, source: str, what: str) -> None:
        self.findings.append(f"{what:.300}\n    {source}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    grammar, started = Grammar(options.seed), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(Path(folder))
        for first in range(0, options.count, TOGETHER):
            count = min(TOGETHER, options.count - first)
            fuzzer.run([grammar.unlikely()])
            fuzzer.run([grammar.template() for _ in range(count - 1)])
    # A process has the memory of the one that started it until it becomes another program.
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    if largest > PROCESS + MEMORY:
        fuzzer.findings.append(f"a process took {largest / 1e6:.0f} MB")
    print(*fuzzer.findings, sep="\n")
    outcomes = ", ".join(f"{count:,} {name}" for name, count in sorted(fuzzer.outcomes.items()))
    print(
        f"{options.count:,} templates of seed {options.seed} in {time.monotonic() - started:.0f} s: {outcomes}; "
        f"the largest process {largest / 1e6:.0f} MB; {len(fuzzer.findings)} findings"
    )
    return min(len(fuzzer.findings), 1)


if __name__ == "__main__":
    sys.exit(main())
