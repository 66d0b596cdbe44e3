"""The tables of docs/events.md: kinds of events, and likely causes of a worker's end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import get_args

from tools.environments import ROOT
from tools.generated_files import replace_section
from uwsgi_headroom.journal.events import JOINED, KINDS, Cause, Kind
from uwsgi_headroom.journal.recorder import GAP_SECONDS, JUDGE_SECONDS
from uwsgi_headroom.journal.workers import AWAY_SECONDS, REACHED, REACHED_REQUESTS

FILE = ROOT / "docs" / "events.md"
DASHBOARD = ROOT / "dashboards" / "out" / "server.json"
"""The dashboard that has all marks."""

CAUSES: tuple[Cause, ...] = get_args(Cause)

KIND_TEXTS: Mapping[Kind, str] = {
    "exporter_started": "The exporter made its first attempt to read this server.",
    "sampling_gap": f"There were no samples for more than {GAP_SECONDS:g} s although the server was not down: the "
    "exporter was stopped, or got no CPU.",
    "server_down": "The server counts as down; the evidence is the message of the failed read.",
    "server_up": "It was read again. The evidence says whether its master is the same process.",
    "reload": "uWSGI was reloaded or restarted, or all workers were replaced, at once or one after another.",
    "worker_ended": "The process of a worker ended, or was replaced between two samples. It has a cause.",
    "worker_started": f"A worker is back that was away for {AWAY_SECONDS:g} s or longer.",
    "cheaper_up": "Cheaper mode spawned workers.",
    "cheaper_down": "Cheaper mode ended workers.",
    "configuration_changed": "The version, the number of workers or threads, the sockets or an option that the "
    "exporter reads is another than before.",
    "verdict_changed": f"Two judgements in a row, at least {JUDGE_SECONDS:g} s apart, came to the same new verdict. "
    "Its time is that of the first.",
}

CAUSE_TEXTS: Mapping[Cause, str] = {
    "harakiri": "uWSGI's `harakiri_count` of the worker has grown. This one is certain: uWSGI says so itself.",
    "out_of_memory": "The kernel counted one more process killed for want of memory, in the master's cgroup or on the "
    "host, between the two samples. It does not count which process that was.",
    "max_requests": f"The process had served at least {REACHED_REQUESTS:g} of `max-requests` (a delta and the worker's "
    "number are added to the option).",
    "max_worker_lifetime": f"The process was at least {REACHED:g} of `max-worker-lifetime` old.",
    "reload_on_rss": f"Its resident memory was at least {REACHED:g} of `reload-on-rss` or `evil-reload-on-rss` at the "
    "last sample.",
    "unknown": "None of these. The evidence is how long it lived, how many requests it served and how much memory it "
    "held. A crash, a kill from outside and an exit of the application look alike.",
}
"""In the order in which they are tried."""


def page() -> str:
    """docs/events.md with both tables."""
    text = replace_section(FILE.read_text(), "kinds", "\n".join(_kind_rows()) + "\n")
    return replace_section(text, "causes", "\n".join(_cause_rows()) + "\n")


def _kind_rows() -> Iterator[str]:
    marks = _read_marks()
    yield "| kind | what happened | joined | mark in Grafana |"
    yield "|---|---|---|---|"
    for kind in KINDS:
        yield f"| `{kind}` | {KIND_TEXTS[kind]} | {'yes' if kind in JOINED else ''} | {marks.get(kind, '')} |"


def _cause_rows() -> Iterator[str]:
    yield "| cause | evidence |"
    yield "|---|---|"
    for cause in sorted(CAUSES, key=list(CAUSE_TEXTS).index):
        yield f"| `{cause}` | {CAUSE_TEXTS[cause]} |"


def _read_marks() -> dict[str, str]:
    """By kind: the mark that shows it, as the dashboard has it."""
    marks: dict[str, str] = {}
    for annotation in json.loads(DASHBOARD.read_text())["annotations"]["list"]:
        kinds = re.search(r'kind=~"([\w|]+)"', annotation["expr"])
        shown = annotation["name"] if annotation["enable"] else f"{annotation['name']} (off at first)"
        marks.update(dict.fromkeys(kinds[1].split("|") if kinds else (), shown))
    return marks
