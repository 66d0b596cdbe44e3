"""Pieces of the texts of alerts, in Prometheus' template language."""

from __future__ import annotations

SERVER = "{{ $labels.server }}"
WORKER = "{{ $labels.worker_id }}"
INSTANCE = "{{ $labels.instance }}"

SERVER_DASHBOARD = (
    "/d/uwsgi-headroom-server?var-job={{ $labels.job | urlquery }}&var-instance={{ $labels.instance | urlquery }}"
    "&var-server={{ $labels.server | urlquery }}"
)
"""The page to open when paged, at the server that the alert is about."""


def value(how: str = "humanize") -> str:
    """The alert's own value: `humanize`, `humanizePercentage`, `humanizeDuration` or `printf "%.1f"`."""
    return f"{{{{ $value | {how} }}}}"


def figure(selector: str, how: str = "humanize") -> str:
    """Another figure of the alert's server at this moment; `unknown` while there is none. selector: a metric's name, or
    a name with `{label="x"}`.
    """
    name, _, labels = selector.rstrip("}").partition("{")
    matchers = "job=%q,instance=%q,server=%q" + (f",{labels}" if labels else "")
    query = f"{name}{{{matchers}}}".replace('"', '\\"')
    return (
        f'{{{{ with printf "{query}" $labels.job $labels.instance $labels.server | query }}}}'
        f"{{{{ . | first | value | {how} }}}}{{{{ else }}}}unknown{{{{ end }}}}"
    )
