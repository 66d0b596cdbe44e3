"""Pieces of the texts of alerts, in Prometheus' template language."""

from __future__ import annotations

import re

from alerts.levels import WITHIN_SERVER

SERVER = "{{ $labels.server }}"
WORKER = "{{ $labels.worker_id }}"
INSTANCE = "{{ $labels.instance }}"

WHOLE, TENTH, HUNDREDTH = 'printf "%.0f"', 'printf "%.1f"', 'printf "%.2f"'
"""How numbers are written: `answer` of a hundredfold share with WHOLE is a percentage."""

SERVER_DASHBOARD = (
    "/d/uwsgi-headroom-server?var-job={{ $labels.job | urlquery }}&var-instance={{ $labels.instance | urlquery }}"
    "&var-server={{ $labels.server | urlquery }}"
)
"""The page to open when paged, at the server that the alert is about."""


def value(how: str = "humanize") -> str:
    """The alert's own value: `humanize`, `humanizeDuration` or `printf "%.1f"`."""
    return f"{{{{ $value | {how} }}}}"


def percent(how: str = WHOLE) -> str:
    """The alert's own value, a part of a whole, as `43 %`. Templates cannot multiply, but queries can."""
    return f'{{{{ printf "100 * %g" $value | query | first | value | {how} }}}} %'


def figure(selector: str, how: str = "humanize") -> str:
    """Another figure of the alert's server at this moment; `unknown` while there is none. selector: a metric's name, or
    a name with `{label="x"}`.
    """
    name, _, labels = selector.rstrip("}").partition("{")
    return answer(f"{name}{{{labels and labels + ','}$self}}", how)


def answer(query: str, how: str = "humanize") -> str:
    """What a query says at this moment; `unknown` while it says nothing. In its selectors, `$self` stands for the
    labels of the alert's server, and other variables for what a template before has put into them.
    """
    return f"{{{{ with {asked(query)} }}}}{{{{ . | first | value | {how} }}}}{{{{ else }}}}unknown{{{{ end }}}}"


def milliseconds(query: str) -> str:
    """Seconds that a query says, as `669 ms`."""
    return answer(f"1000 * {query}", 'printf "%.0f ms"')


def asked(query: str) -> str:
    """A template's expression for the series that a query gives; `$self` as in `answer`."""
    variables = list(dict.fromkeys(_VARIABLE.findall(query)))
    text = query.replace("%", "%%").replace("\\", r"\\").replace('"', r"\"")
    for place, variable in enumerate(variables, start=1):
        text = re.sub(rf"\{variable}\b", f"%[{place}]s", text)
    return f'printf "{text}" {" ".join(variables)} | query'


def with_self(text: str) -> str:
    """The text, after a template that sets `$self` if it is used in there."""
    return _SELF + text if "$self" in text else text


_VARIABLE = re.compile(r"\$\w+")

_SELF = (
    '{{ $self := "" }}{{ range $name, $value := $labels }}'
    f'{{{{ if not (match "^(__name__|{"|".join(WITHIN_SERVER)})$" $name) }}}}'
    '{{ $self = printf "%s%s=%q," $self $name $value }}{{ end }}{{ end }}'
)
"""Every label of the alert but those of parts of a server: who adds `cluster` to targets has servers that differ in
nothing else."""
