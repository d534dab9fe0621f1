# SPDX-License-Identifier: Apache-2.0
"""Templates do not leave the sandbox: nothing of Python, no file, no other process."""

import resource
from pathlib import Path

import pytest
from jinja2 import TemplateError
from jinja2.exceptions import SecurityError, UndefinedError

from mebp.data import template_worker
from support.templates import template_of

# An attribute that is not for templates is undefined: nothing is written, and nothing can be asked of it.
ROOTS = (
    "''",
    "[]",
    "messages",
    "none",
    "range",
    "namespace",
    "namespace()",
    "lipsum",
    "cycler",
    "cycler(1)",
    "joiner",
    "joiner()",
    "self",
    "loop",
    "macro",
    "caller",
    "raise_exception",
    "strftime_now",
    "''.format",
    "messages.append",
    "([1] | map('upper'))",
    "(messages | groupby('role'))[0]",
    "('a' | safe)",
    "undefined_name",
)
SECRETS = (
    "__class__",
    "__init__",
    "__globals__",
    "__dict__",
    "__mro__",
    "__subclasses__",
    "__base__",
    "__builtins__",
    "__self__",
    "__call__",
    "__reduce__",
    "__getattribute__",
    "mro",
    "func_globals",
    "func_code",
    "im_func",
    "gi_frame",
    "gi_code",
    "_environment",
    "_TemplateReference__context",
    "_Namespace__attrs",
)
# X is one of ROOTS, and `a` one of SECRETS.
WAYS = (
    "{{ X[a] }}",
    "{{ X | attr(a) }}",
    "{{ [X] | map(attribute=a) | join }}",
    "{{ [X] | map('attr', a) | join }}",
    "{{ [X] | selectattr(a) | list | length or '' }}",
    "{{ ([X] | groupby(a))[0].grouper }}",
    "{{ [X] | join(attribute=a) }}",
    "{{ ('{0.' ~ a ~ '}').format(X) }}",
    "{{ ('{x.' ~ a ~ '}').format_map({'x': X}) }}",
    "{{ ('{0.' ~ a ~ '}' | safe).format(X) }}",
    "{{ ('{0.' ~ a ~ '}')['format'](X) }}",
    "{{ (('{0.' ~ a ~ '}') | attr('format'))(X) }}",
    "{{ (['{0.' ~ a ~ '}'] | map(attribute='format') | first)(X) }}",
    "{% set f = ('{0.' ~ a ~ '}').format %}{{ f(X) }}",
    "{% set n = namespace(f=('{x.' ~ a ~ '}').format_map) %}{{ n.f({'x': X}) }}",
    "{% macro call(f) %}{{ f(X) }}{% endmacro %}{{ call(('{0.' ~ a ~ '}').format) }}",
    "{{ dict(f=('{0.' ~ a ~ '}').format).f(X) }}",
)
SETTING = "{% macro macro() %}{% endmacro %}{% for each in [1] %}%s{% endfor %}"


@pytest.mark.parametrize("root", ROOTS)
def test_no_attribute_of_python_s_is_reached(root: str) -> None:
    environment = template_worker._Environment(None)
    for way in (*WAYS, *(f"{{{{ X.{secret} }}}}" for secret in SECRETS)):
        template = environment.from_string(SETTING.replace("%s", way.replace("X", root)))
        for secret in SECRETS if way in WAYS else [""]:
            try:
                text = template.render(messages=[{"role": "user", "content": "Who?"}], a=secret)
            except (SecurityError, UndefinedError):
                continue
            assert text == "", (way, secret)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ lipsum.__globals__['os'].popen('id').read() }}",
        "{{ cycler.__init__.__globals__.os.system('id') }}",
        "{{ namespace.__init__.__globals__ }}{{ joiner.__init__['__globals__'].os }}",
        "{{ self.__init__.__globals__.__builtins__.open('/etc/passwd').read() }}",
        "{{ (messages | attr('__class__')).mro() }}",
        "{{ raise_exception.__globals__.os }}{{ strftime_now.__closure__[0] }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='x') }}",
        "{% set n = namespace() %}{% set n.__class__ = dict %}{{ n.__class__.__mro__[1].__subclasses__() }}",
        "{% set messages.role = 'x' %}",
        "{% set x = ''.__class__ %}{{ x() | attr('__class__') | attr('mro')() }}",
        "{{ ''['__cl' ~ 'ass__']['__ba' ~ 'se__'] }}{{ ''[['__class', '__'] | join].mro() }}",
        "{{ dict['a'].mro()[1].__subclasses__() }}{{ (dict['a'].mro()[1] | attr('__subclasses__'))() }}",
        "{{ '\\x5f\\x5fclass\\x5f\\x5f' | replace('a', 'a') }}{{ ''['\\x5f\\x5fclass\\x5f\\x5f'].mro() }}",
    ],
)
def test_known_ways_out_are_closed(source: str) -> None:
    environment, messages = template_worker._Environment(None), [{"role": "user"}]
    with pytest.raises(TemplateError):
        environment.from_string(source).render(messages=messages)
    assert messages == [{"role": "user"}]


@pytest.mark.parametrize(
    "source",
    [
        "{% include '/etc/passwd' %}",
        "{% include ['/etc/passwd', 'chat_template.jinja'] %}",
        "{% import '/etc/passwd' as x %}",
        "{% from 'chat_template.jinja' import x %}",
        "{% extends '/etc/passwd' %}",
    ],
)
def test_no_file_is_loaded(source: str) -> None:
    with pytest.raises(TypeError, match="no loader for this environment specified"):
        template_worker._Environment(None).from_string(source).render()


def test_the_process_may_open_nothing_and_start_nothing(tmp_path: Path) -> None:
    template = template_of(tmp_path, "x")
    process = template._process._worker._process
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
        assert resource.prlimit(process.pid, kind) == (0, 0)
    size = int(Path(f"/proc/{process.pid}/statm").read_text().split()[0]) * resource.getpagesize()
    assert resource.prlimit(process.pid, resource.RLIMIT_AS)[1] <= size + 256_000_000
    open_files = {Path(f"/proc/{process.pid}/fd/{each}").readlink() for each in (0, 1, 2)}
    assert {str(each).split(":")[0] for each in open_files} == {"socket", "/dev/null"}
    assert len(list(Path(f"/proc/{process.pid}/fd").iterdir())) == 3
