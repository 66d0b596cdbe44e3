"""Parts of alert texts, in Prometheus' template language."""

from __future__ import annotations

import re
from collections.abc import Sequence

from alerts.levels import WITHIN_SERVER

INSTANCE = "{{ $labels.instance }}"
SERVER = "{{ $labels.server }}"
WORKER = "{{ $labels.worker_id }}"

WHOLE, TENTH, HUNDREDTH = 'printf "%.0f"', 'printf "%.1f"', 'printf "%.2f"'
"""Number formats: `answer` of a share times 100, with WHOLE, is a percentage."""

DURATION = 'template "duration"'
"""The format of a duration, given to `value` and `answer`: `340 ms`, `12 min 31 s`, `28 d 20 h`."""

CLOCK = "clock"
"""The format of a time in epoch seconds, given to `answer`: `26 Nov 14:02 UTC`."""

SERVER_DASHBOARD = (
    "/d/uwsgi-headroom-server?var-job={{ $labels.job | urlquery }}&var-instance={{ $labels.instance | urlquery }}"
    "&var-server={{ $labels.server | urlquery }}"
)
"""The dashboard to open when paged, for the alert's server."""

FLEET_DASHBOARD = "/d/uwsgi-headroom-fleet?var-job={{ $labels.job | urlquery }}"
"""The dashboard for alerts that are about no single server."""

SHELL_NAME = (
    '{{ if match "^[A-Za-z0-9_./@][A-Za-z0-9_./@:+-]*$" $labels.server }}{{ $labels.server }}{{ else }}NAME{{ end }}'
)
"""The server's name in a command that people paste, or NAME if a shell would take it for more than a name."""

CHECK = "`uwsgi-headroom check` on the host"

MOST_NAMED = 8
"""The most workers that a text lists; people skip a longer list."""


def value(how: str = "humanize") -> str:
    """The alert's own value. how: `humanize`, DURATION or `printf "%.1f"`."""
    return _formatted("$value", how)


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
    return if_any(query, of_dot(how), otherwise="unknown")


def milliseconds(query: str) -> str:
    """The result of a query in seconds, as `669 ms`."""
    return answer(f"1000 * {query}", 'printf "%.0f ms"')


def if_any(query: str, text: str, otherwise: str = "") -> str:
    """A text that is there only if a query has a result, which is `.` in it; else another one."""
    alternative = f"{{{{ else }}}}{otherwise}" if otherwise else ""
    return f"{{{{ with {asked(query)} }}}}{text}{alternative}{{{{ end }}}}"


def of_dot(how: str) -> str:
    """The result of the query of `if_any`."""
    return _formatted(". | first | value", how)


def workers(query: str) -> str:
    """The workers that a query returns, the worst first: `worker 2`, `workers 3, 1 and 2`, or `12 workers`."""
    return (
        f"{{{{ with {asked(f'sort_desc({query})')} }}}}{{{{ $all := . }}}}"
        f"{{{{ if gt (len .) {MOST_NAMED} }}}}{{{{ len . }}}} workers{{{{ else }}}}"
        "worker{{ if gt (len .) 1 }}s{{ end }} {{ range $place, $one := . }}"
        "{{ if $place }}{{ if eq (len (slice $all $place)) 1 }} and {{ else }}, {{ end }}{{ end }}"
        "{{ $one.Labels.worker_id }}{{ end }}{{ end }}{{ else }}unknown workers{{ end }}"
    )


def pids(query: str) -> str:
    """The command that prints the present PIDs of the workers that a query returns, and what to run on them. An alert
    has no PID: it is minutes old, and the PID another process by then. With many workers, of all with stuck requests.
    """
    return (
        f"`uwsgi-headroom pids {SHELL_NAME} {{{{ with {asked(f'sort_desc({query})')} }}}}"
        f"{{{{ if gt (len .) {MOST_NAMED} }}}}--stuck{{{{ else }}}}--worker "
        "{{ range $place, $one := . }}{{ if $place }},{{ end }}{{ $one.Labels.worker_id }}{{ end }}{{ end }}"
        "{{ else }}--stuck{{ end }}`"
    )


def since(alert: str, severity: str) -> str:
    """Since when the alert's condition has been true, as the end of a sentence; empty where the rule engine does not
    record it."""
    return if_any(_began(alert, severity), f" (began {of_dot(CLOCK)})")


def numbered(acts: Sequence[str], alert: str, severity: str, *, deploys: bool) -> str:
    """The acts, a line each. deploys: if the condition began within an hour after the application was last loaded, to
    undo that is the first: most outages begin with a change."""
    if not deploys:
        return "".join(f"{place}. {act}\n" for place, act in enumerate(acts, start=1))
    began, loaded = _began(alert, severity), "max(last_over_time(uwsgi_last_reload_time_seconds{$self}[1h]))"
    later = f"clamp_min({began} - {loaded} >= -{CLOCKS_DIFFER} <= 3600, 0)"
    roll_back = (
        f"1. If the reload at {answer(loaded, CLOCK)} was a deploy, roll the deploy back: the problem began "
        f"{of_dot(DURATION)} later.\n"
    )
    return f"{{{{ $next := 0 }}}}{if_any(later, f'{{{{ $next = 1 }}}}{roll_back}')}" + "".join(
        f"{{{{ if $next }}}}{place + 1}{{{{ else }}}}{place}{{{{ end }}}}. {act}\n"
        for place, act in enumerate(acts, start=1)
    )


CLOCKS_DIFFER = 60
"""Seconds by which the clock of an exporter's host may differ from that of Prometheus."""


def asked(query: str) -> str:
    """A template's expression for the series that a query returns; `$self` as in `answer`."""
    variables = list(dict.fromkeys(_VARIABLE.findall(query)))
    text = query.replace("%", "%%").replace("\\", r"\\").replace('"', r"\"")
    for place, variable in enumerate(variables, start=1):
        text = re.sub(rf"\{variable}\b", f"%[{place}]s", text)
    return f'printf "{text}" {" ".join(variables)} | query' if variables else f'query "{text.replace("%%", "%")}"'


def complete(text: str) -> str:
    """The text, preceded by the templates that it uses: `$self`, and the format of durations."""
    return (_SELF if "$self" in text else "") + (_DURATION if DURATION in text else "") + text


def _began(alert: str, severity: str) -> str:
    return f'min(ALERTS_FOR_STATE{{alertname="{alert}",severity="{severity}",$self}})'


def _formatted(expression: str, how: str) -> str:
    if how == CLOCK:
        return f'{{{{ ({expression} | toTime).Format "2 Jan 15:04" }}}} UTC'
    return f"{{{{ {how} ({expression}) }}}}" if how == DURATION else f"{{{{ {expression} | {how} }}}}"


def _part(query: str, unit: str) -> str:
    """A whole number that follows from the seconds in `.`, with its unit."""
    return f'{{{{ printf "{query}" . | query | first | value | {WHOLE} }}}} {unit}'


_DURATION = (
    '{{ define "duration" }}{{ if ge . 86400.0 }}'
    + _part("floor(vector(%f) / 86400)", "d ")
    + _part("floor(vector(%f) %% 86400 / 3600)", "h")
    + "{{ else if ge . 3600.0 }}"
    + _part("floor(vector(%f) / 3600)", "h ")
    + _part("floor(vector(%f) %% 3600 / 60)", "min")
    + "{{ else if ge . 60.0 }}"
    + _part("floor(vector(%f) / 60)", "min ")
    + _part("floor(vector(%f) %% 60)", "s")
    + '{{ else if ge . 1.0 }}{{ printf "%.1f s" . }}{{ else }}'
    + _part("1000 * %f", "ms")
    + "{{ end }}{{ end }}"
)
"""Prometheus' own format of durations has up to four units."""

_VARIABLE = re.compile(r"\$\w+")

_SELF = (
    '{{ $self := "" }}{{ range $name, $value := $labels }}'
    f'{{{{ if not (match "^(__name__|{"|".join(WITHIN_SERVER)})$" $name) }}}}'
    '{{ $self = printf "%s%s=%q," $self $name $value }}{{ end }}{{ end }}'
)
"""All labels of the alert except those of parts of a server: if targets have a label `cluster`, two servers may differ
in that label only."""
