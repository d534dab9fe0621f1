# SPDX-License-Identifier: Apache-2.0
"""Chat templates that would never end, or take all memory."""

import resource

import pytest
from jinja2 import TemplateError

from mebp.data import template_limits
from mebp.data.template_limits import BoundedEnvironment

STEPS = "it takes more than 250,000 steps"
LONG = "it makes a value of more than 16,000,000 characters"
HOSTILE = {
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}": STEPS,
    "{% macro f(n) %}{{ f(n - 1) if n }}{{ f(n - 1) if n }}{% endmacro %}{{ f(40) }}": STEPS,
    "{% for c in range(600) recursive %}{{ loop(range(600)) if loop.depth < 2 }}{% endfor %}": STEPS,
    "{{ 'a' * 10 ** 9 }}": "it repeats a value too often",
    "{{ 10 ** 9 * 'a' }}": "it repeats a value too often",
    "{{ [0] * 10 ** 9 }}": "it repeats a value too often",
    "{{ 9 ** 9999999 }}": "it makes too large a number",
    "{{ '%999999999d' % 1 }}": "it pads a text too far",
    "{{ '%*d' % (999999999, 1) }}": "it pads a text too far",
    "{{ '%999999999d' | format(1) }}": "it pads a text too far",
    "{{ '{:999999999}'.format(1) }}": "it pads a text too far",
    "{{ 'a'.center(999999999) }}": "it pads a text too far",
    "{{ 'a'.zfill(999999999) }}": "it pads a text too far",
    "{{ 'a' | indent(999999999, first=true) }}": "it indents too far",
    "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}": LONG,
    "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}": LONG,
    "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set n.x = [n.x, n.x] | join %}{% endfor %}": LONG,
    "{% set x = 'a' * 9999 %}{{ x.replace('a', x).replace('a', x) }}": LONG,
    "{% set x = 'a' * 9999 %}{{ x | replace('a', x) | replace('a', x) }}": LONG,
    "{% set x = 'a' * 9999 %}{{ x.join([x] * 9999) }}": LONG,
    "{{ range(99999) | slice(9999) }}": "No filter named 'slice'",
}


@pytest.mark.parametrize("source", HOSTILE)
def test_templates_end_within_limits(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_limits, "_MOST_SECONDS", 600)
    environment = BoundedEnvironment()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TemplateError, match=HOSTILE[source].replace("(", r"\(")):
        environment.from_string(source).render()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KB


def test_a_slow_template_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_limits, "_MOST_SECONDS", 0.01)
    environment = BoundedEnvironment()
    with pytest.raises(TemplateError, match=r"it takes more than 0\.01 seconds"):
        environment.from_string("{% for a in range(99999) %}{{ 'a'.upper() }}{% endfor %}").render()


def test_loops_and_texts_are_as_in_plain_jinja() -> None:
    source = (
        "{% for m in ms %}{{ loop.index }}/{{ loop.length }}{{ '.' if loop.last }}{{ m.a ~ '-' ~ loop.index0 }} "
        "{%- if loop.nextitem is defined %}+{% endif %}{% endfor %}{{ ms | map(attribute='a') | join(', ') }}"
        "{{ 'b' | indent(2, first=true) }}{{ 'abab' | replace('a', 'c') }}{{ '%03d' % 7 }}{{ '%.2f' | format(1.5) }}"
        "{% for k, v in {'x': 1}.items() %}{{ k }}{{ v }}{% endfor %}"
        "{% for c in 'xyz' if c != 'y' %}{{ c }}{% endfor %}"
    )
    expected = "1/2a-0+2/2.b-1a, b  bcbcb0071.50x1xz"
    environment = BoundedEnvironment()
    for _ in range(2):
        environment.begin()
        assert environment.from_string(source).render(ms=[{"a": "a"}, {"a": "b"}]) == expected
