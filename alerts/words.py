"""Parts of alert texts, in Prometheus' template language."""

from __future__ import annotations

import re

from alerts.levels import WITHIN_SERVER

SERVER = "{{ $labels.server }}"
WORKER = "{{ $labels.worker_id }}"
INSTANCE = "{{ $labels.instance }}"

WHOLE, TENTH, HUNDREDTH = 'printf "%.0f"', 'printf "%.1f"', 'printf "%.2f"'
"""Number formats: `answer` of a share times 100, with WHOLE, is a percentage."""

SERVER_DASHBOARD = (
    "/d/uwsgi-headroom-server?var-job={{ $labels.job | urlquery }}&var-instance={{ $labels.instance | urlquery }}"
    "&var-server={{ $labels.server | urlquery }}"
)
"""The dashboard to open when paged, for the alert's server."""


def value(how: str = "humanize") -> str:
    """The alert's own value. how: `humanize`, `humanizeDuration` or `printf "%.1f"`."""
    return f"{{{{ $value | {how} }}}}"


def percent(how: str = WHOLE) -> str:
    """The alert's own value, a part of a whole, as `43 %`. Templates cannot multiply, but queries can."""
    return f'{{{{ printf "100 * %g" $value | query | first | value | {how} }}}} %'


def figure(selector: str, how: str = "humanize") -> str:
    """Another current figure of the alert's server; `unknown` if there is none. selector: a metric's name, or a name
    with `{label="x"}`.
    """
    name, _, labels = selector.rstrip("}").partition("{")
    return answer(f"{name}{{{labels and labels + ','}$self}}", how)


def answer(query: str, how: str = "humanize") -> str:
    """The current result of a query; `unknown` if it is empty. In selectors of the query, `$self` stands for the labels
    of the alert's server; other variables have the values that an earlier template has set.
    """
    return f"{{{{ with {asked(query)} }}}}{{{{ . | first | value | {how} }}}}{{{{ else }}}}unknown{{{{ end }}}}"


def milliseconds(query: str) -> str:
    """The result of a query in seconds, as `669 ms`."""
    return answer(f"1000 * {query}", 'printf "%.0f ms"')


def asked(query: str) -> str:
    """A template's expression for the series that a query returns; `$self` as in `answer`."""
    variables = list(dict.fromkeys(_VARIABLE.findall(query)))
    text = query.replace("%", "%%").replace("\\", r"\\").replace('"', r"\"")
    for place, variable in enumerate(variables, start=1):
        text = re.sub(rf"\{variable}\b", f"%[{place}]s", text)
    return f'printf "{text}" {" ".join(variables)} | query'


def with_self(text: str) -> str:
    """The text, preceded by a template that sets `$self` if the text uses it."""
    return _SELF + text if "$self" in text else text


_VARIABLE = re.compile(r"\$\w+")

_SELF = (
    '{{ $self := "" }}{{ range $name, $value := $labels }}'
    f'{{{{ if not (match "^(__name__|{"|".join(WITHIN_SERVER)})$" $name) }}}}'
    '{{ $self = printf "%s%s=%q," $self $name $value }}{{ end }}{{ end }}'
)
"""All labels of the alert except those of parts of a server: if targets have a label `cluster`, two servers may differ
in that label only."""
