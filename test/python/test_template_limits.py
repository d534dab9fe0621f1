# SPDX-License-Identifier: Apache-2.0
"""Chat templates that would never end, take all memory, or break Python."""

import re
import resource
from pathlib import Path

import pytest

from mebp.data import template_process
from mebp.data.template_process import Asked, Part
from mebp.errors import Error
from support.templates import template_of

TIME, MEMORY, OUTPUT = "takes more than 0.5 seconds", "takes more than 256 MB of memory", "writes more than 16 MB"
DOUBLED = "{% set n = namespace(x=messages[0].content) %}{% for i in range(60) %}"
HOSTILE = {
    # Loops and calls.
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}": TIME,
    "{% macro f(n) %}{{ f(n - 1) if n }}{{ f(n - 1) if n }}{% endmacro %}{{ f(60) }}": TIME,
    "{% for c in range(999) recursive %}{{ loop(range(999)) if loop.depth < 9 }}{% endfor %}": TIME,
    "{% for a in range(99999) %}{% set x = range(99999) | list | sort | reverse | join %}{% endfor %}": TIME,
    # A call of C that does not return.
    "{% set n = 9 %}{{ n ** (n ** n) % 7 }}": TIME,
    # Long texts of short ones.
    "{{ ('a' * 10 ** 9) | length }}": MEMORY,
    "{{ (10 ** 9 * 'a') | length }}": MEMORY,
    "{{ ([0] * 10 ** 9) | length }}": MEMORY,
    "{{ ('%999999999d' % 1) | length }}": MEMORY,
    "{{ ('%*d' % (999999999, 1)) | length }}": MEMORY,
    "{{ (('%(a)s' * 9999) % {'a': messages[0].content * 9999}) | length }}": MEMORY,
    "{{ ('%999999999d' | format(1)) | length }}": MEMORY,
    "{{ (('%s' * 9999) | format(*[messages[0].content * 9999] * 9999)) | length }}": MEMORY,
    "{{ '{:999999999}'.format(1) | length }}": MEMORY,
    "{{ ('{0}' * 9999).format(messages[0].content * 9999) | length }}": MEMORY,
    "{{ ('{a}' * 9999).format_map({'a': messages[0].content * 9999}) | length }}": MEMORY,
    "{{ 'a'.center(999999999) | length }}": MEMORY,
    "{{ 'a'.ljust(999999999) | length }}": MEMORY,
    "{{ 'a'.zfill(999999999) | length }}": MEMORY,
    "{{ '\t'.expandtabs(999999999) | length }}": MEMORY,
    "{{ ('a' | center(999999999)) | length }}": MEMORY,
    "{{ ('a' | indent(999999999, first=true)) | length }}": MEMORY,
    "{{ (('a ' * 9999) | wordwrap(1, wrapstring='a' * 99999)) | length }}": MEMORY,
    "{{ ([1] | batch(999999999, 0) | list) | length }}": MEMORY,
    "{{ [[1]] | tojson(indent=999999999) | length }}": MEMORY,
    "{{ range(9999) | list | tojson(separators=('a' * 99999, '')) | length }}": MEMORY,
    "{% set x = messages[0].content * 999 %}{{ x.replace('e', x).replace('e', x) | length }}": MEMORY,
    "{% set x = messages[0].content * 999 %}{{ (x | replace('e', x) | replace('e', x)) | length }}": MEMORY,
    "{% set x = messages[0].content * 999 %}{{ x.join([x] * 99999) | length }}": MEMORY,
    DOUBLED + "{% set n.x = n.x ~ n.x %}{% endfor %}": MEMORY,
    DOUBLED + "{% set n.x = [n.x, n.x] | join %}{% endfor %}": MEMORY,
    DOUBLED + "{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}{% endfor %}": MEMORY,
    DOUBLED + "{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | string | length }}": TIME,
    # More than anybody could use.
    "{% for a in range(99999) %}{{ 'a' * 999 }}{% endfor %}": OUTPUT,
    "{{ 'é' * 9000000 }}": OUTPUT,
    "{% macro f(n) %}{{ 'a' * 9999 }}{{ f(n - 1) if n }}{{ f(n - 1) if n }}{% endmacro %}{{ f(10) }}": OUTPUT,
}


@pytest.mark.parametrize("source", HOSTILE)
def test_templates_end_within_limits(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if HOSTILE[source] == TIME:
        monkeypatch.setattr(template_process, "_SECONDS", 0.5)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Error) as caught:
        template_of(tmp_path, source).render([{"role": "user", "content": "Who is there?"}])
    assert re.search(r"the (?:model's )?chat template .*" + HOSTILE[source], str(caught.value))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "maximum recursion depth exceeded"),
        ("{{ raise_exception('a\\n\\nb\\u2028c') }}", "a"),
        ("{{ raise_exception('') }}", "TemplateError"),
        ("{{ raise_exception('a' * 999999) }}", "a" * 500),
        ("{{ 1 // 0 }}", "integer division or modulo by zero"),
        ("{{ messages[0].content.nothing.at.all }}", "'str object' has no attribute 'nothing'"),
        ("{{ [messages] | tojson(indent=range) }}", "can't multiply sequence by non-int of type 'function'"),
        ("{{ messages.append(1) }}", "access to attribute 'append' of 'list' object is unsafe"),
        ("{% include 'other.jinja' %}", "no loader for this environment specified"),
        ("{{ range(10 ** 9) | length }}", "Range too big"),
    ],
)
def test_what_a_template_raises_is_one_line(source: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        template_of(tmp_path, source).render([{"role": "user", "content": "Who?"}])
    assert str(caught.value).startswith(f"the model's chat template refuses it: {reason}")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{% for x in [1] %}" * 30 + "{% endfor %}" * 30, "too many statically nested blocks"),
        ("{{" + "(" * 9999 + "1" + ")" * 9999 + "}}", "maximum recursion depth exceeded"),
        ("{{ 1" + " + 1" * 9999 + " }}", "maximum recursion depth exceeded"),
        ("{% break %}", "'break' outside loop"),
        ("{% for %}", "Expected an expression, got 'end of statement block'"),
        ("{{ 9 ** (9 ** 9) }}", "takes more than 0.5 seconds"),
        ("{{ 9 ** (9 ** 5) }}", "Exceeds the limit"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    source: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "seconds" in reason:
        monkeypatch.setattr(template_process, "_SECONDS", 0.5)
    with pytest.raises(Error) as caught:
        template_of(tmp_path, source)
    assert str(caught.value).startswith(f"{tmp_path}: the chat template cannot be read ({reason}")
    assert str(caught.value).endswith("); correct it")
    assert len(str(caught.value).splitlines()) == 1


def test_a_limit_ends_one_rendering_and_no_other(tmp_path: Path) -> None:
    template = template_of(tmp_path, "{% set n = messages[0].n %}{{ (n * 10 ** 9) * 'a' if n > 1 else n }}")
    asked = [Asked([{"n": number}], None, [Part(1), Part(1)]) for number in (0, 1, 9, 1)]
    rendered = template.render_all(asked)
    assert [next(rendered), next(rendered)] == [["0", "0"], ["1", "1"]]
    with pytest.raises(Error, match="the model's chat template takes more than 256 MB of memory"):
        next(rendered)
    assert template.render([{"n": 1}]) == "1"


def test_many_are_sent_at_once_and_answered_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_process, "_BATCH", 1000)
    template = template_of(tmp_path, "{{ messages | map(attribute='n') | join(',') }}{{ 1 // messages[0].n }}")
    asked = [Asked([{"n": number}, {"n": {1}}][: 1 + (number == 7)], None, [Part(1), Part(2)]) for number in range(200)]
    for number, (first, second) in enumerate(template.render_all(asked)):
        if number == 7:
            assert first.reason == second.reason == "Object of type set is not JSON serializable"
        elif number == 0:
            assert first.reason == "integer division or modulo by zero"
        else:
            assert first == second == f"{number}{1 // number}"


def test_loops_and_texts_are_as_in_plain_jinja(tmp_path: Path) -> None:
    source = (
        "{% for m in messages %}{{ loop.index }}/{{ loop.length }}{{ '.' if loop.last }}{{ m.a ~ '-' ~ loop.index0 }} "
        "{%- if loop.nextitem is defined %}+{% endif %}{% endfor %}{{ messages | map(attribute='a') | join(', ') }}"
        "{{ 'b' | indent(2, first=true) }}{{ 'abab' | replace('a', 'c') }}{{ '%03d' % 7 }}{{ '%.2f' | format(1.5) }}"
        "{% for k, v in {'x': 1}.items() %}{{ k }}{{ v }}{% endfor %}{{ 'a b' | wordwrap(1) }}{{ 'a<' | striptags }}"
        "{% for c in 'xyz' if c != 'y' %}{{ c }}{% endfor %}"
        "{{ [3, 1] | slice(2) | list }}{{ '\\ud800' }}{{ eos_token }}"
    )
    template = template_of(tmp_path, source)
    for _ in range(2):
        rendered = template.render([{"a": "a"}, {"a": "b"}])
        assert rendered == "1/2a-0+2/2.b-1a, b  bcbcb0071.50x1a\nba<xz[[3], [1]]\ud800</s>"
