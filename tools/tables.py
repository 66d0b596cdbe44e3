"""Makes the tables of documents from data (alerts, metrics, settings) and from the exporter's source.

Each function yields the lines of one section as Markdown. `tools.generate` says in which document.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import wrap
from types import ModuleType
from typing import get_args

import yaml
from prometheus_client.metrics_core import Metric

from app.scenes import SCENES
from tests.support.observations import HEALTH, everything
from tools.environments import ROOT
from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.findings import RUNBOOKS, SEVERITIES, Severity
from uwsgi_headroom.analysis.findings.kind import PAGE_AFTER, Kind
from uwsgi_headroom.analysis.settings import list_rules
from uwsgi_headroom.analysis.worker_states import RECYCLED
from uwsgi_headroom.config.settings import FLAGS
from uwsgi_headroom.history.events import KINDS, Cause
from uwsgi_headroom.metrics import SECTIONS
from uwsgi_headroom.metrics.family import group_by_kind, tabulate
from uwsgi_headroom.uwsgi_log.messages import MESSAGES
from uwsgi_headroom.watch.recorder import GAP_SECONDS, JUDGE_SECONDS
from uwsgi_headroom.watch.worker_events import AWAY_SECONDS, REACHED

RUNBOOK_FOLDER = ROOT / "alerts" / "runbooks"
ALERTS = ROOT / "alerts" / "rules" / "alerts.yaml"
RUNBOOK_OF_ALERT = {
    "UwsgiUsersHurt": "",
    "UwsgiWillHurt": "",
    "UwsgiHotWorkerSaturated": "UwsgiWorkersUneven",
    "UwsgiHeadroomForecast": "UwsgiHeadroomLow",
    "UwsgiExporterDown": "UwsgiNotJudged",
}
"""The runbook of an alert, if it has another name; empty where each finding has its own."""
SUMMARIES = {
    "UwsgiUsersHurt": "The exporter's judge finds that users are hurt now. The alert says what, why and what to do.",
    "UwsgiWillHurt": "The exporter's judge finds what hurts some users, or soon will.",
    "UwsgiHotWorkerSaturated": "One worker's interpreter (GIL) is saturated, and its requests are slow.",
    "UwsgiExporterDown": "Prometheus cannot scrape an exporter: its servers have no new alerts.",
    "UwsgiHeadroomForecast": "If growth goes on, 90 % of the threads are in use within four weeks.",
}
CAUSES: tuple[Cause, ...] = get_args(Cause)

NUMBERS: Mapping[str, float] = {
    "sampling_gap": GAP_SECONDS,
    "worker_started": AWAY_SECONDS,
    "verdict_changed": JUDGE_SECONDS,
    "max_requests": RECYCLED,
    "max_worker_lifetime": REACHED,
    "reload_on_rss": REACHED,
}
"""By the kind or the cause of an event: a number of the source that its text names."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def alerts() -> Iterator[str]:
    """The alerts, the most severe first: a row for each name, with its runbook's summary."""
    order = ("critical", "warning", "info")
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    by_name: dict[str, list[str]] = {}
    for rule in rules:
        by_name.setdefault(rule["alert"], []).append(rule["labels"]["severity"])
    rows = []
    for name, severities in by_name.items():
        named = [severity for severity in order if any(severity in text for text in severities)]
        book = RUNBOOK_OF_ALERT.get(name, name)
        when = SUMMARIES.get(name) or (RUNBOOK_FOLDER / f"{book}.md").read_text().split("\n\n")[1]
        rows.append((f"[{name}]({f'../alerts/runbooks/{book}' if book else 'findings'}.md)", " or ".join(named), when))
    yield from table(("alert", "severity", "when"), sorted(rows, key=lambda row: order.index(row[1].split(" or ")[0])))


def metrics() -> Iterator[str]:
    scrape = group_by_kind(everything(), HEALTH)
    for title, tables in SECTIONS.items():
        yield f"## {title}"
        yield ""
        yield from (_metric(family) for family in tabulate(tables, scrape) if family.samples)
        yield ""


def _metric(metric: Metric) -> str:
    """A metric with its labels, but for `server` and the `le` of histograms; and the first sentence of its help."""
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    labels = {name for sample in metric.samples for name in sample.labels} - {"server", "le"}
    shown = f"{{{','.join(sorted(labels))}}}" * bool(labels)
    return f"* `{name}{shown}`: {re.split(r'(?<=[.]) (?=[A-Z])', metric.documentation)[0]}"


def event_kinds() -> Iterator[str]:
    texts = read_texts("kinds")
    yield from table(("kind", "what happened"), [(f"`{kind}`", texts[kind]) for kind in KINDS])


def read_texts(name: str) -> dict[str, str]:
    """What docs/history.md says of each kind or cause, in the order of its table. Raises ValueError for a text without
    its number in `NUMBERS`."""
    _, _, *rows = read_section((ROOT / "docs" / "history.md").read_text(), name).splitlines()
    texts = dict(row.removeprefix("| `").removesuffix(" |").split("` | ") for row in rows)
    for code in NUMBERS.keys() & texts.keys():
        if f" {NUMBERS[code]:g} " not in texts[code]:
            raise ValueError(f"docs/history.md, {code}: the number is {NUMBERS[code]:g}")
    return texts


def log_messages() -> Iterator[str]:
    """The known messages of uWSGI's log by their role, with proofs; mere events by name."""
    proofs = {
        "pid_gone": "the process is gone",
        "cache_full": "more refused items",
        "uncalled": "counted, application not called",
        "request_line": "PID, counters and bytes match",
        "queue_full": "a queue is at its limit",
        "no_application": "a worker has no application",
    }
    roles = {
        "rejected": "Finding `requests_rejected`",
        "failed": "Finding `log_failure`",
        "setting": "Finding `log_setting`",
        "known": "Quoted by other findings",
    }
    for_people = {"worker": "a worker", "signal": "…", "limit": "…"}
    for role, title in roles.items():
        yield from (f"{title}:", "")
        for message in MESSAGES:
            if message.role == role:
                named = proofs.get(message.proof or "", f"more {message.proof}").replace("_", " ")
                proof = f" (proof: {named})" * bool(message.proof)
                yield f"* `{message.code}`: {message.says.format(**for_people)}{proof}"
        yield ""
    events = ", ".join(f"`{message.code}`" for message in MESSAGES if message.role == "event")
    yield from wrap(f"Without a finding: {events}.", 120)


def event_causes() -> Iterator[str]:
    texts = read_texts("causes")
    causes = sorted(CAUSES, key=list(texts).index)
    yield from table(("cause", "evidence"), [(f"`{cause}`", texts[cause]) for cause in causes])


def scenes() -> Iterator[str]:
    yield from table(("SCENE", "situation"), [(f"`{scene.name}`", scene.summary) for scene in SCENES])


def settings() -> Iterator[str]:
    rows = []
    for setting in FLAGS:
        form = setting.form
        repeatable = ", repeatable" if setting.is_repeatable else ""
        default = str(setting.default) if setting.default else ""
        rows.append((f"`{form}`{repeatable}", f"`{setting.variable}`", default))
    yield from table(("flag", "environment", "default"), rows)


def rules() -> Iterator[str]:
    """The rules of `review`."""
    rows = []
    for advice in list_rules():
        lines = "<br>".join(f"`{line}`" for line in advice.lines) or advice.change
        rows.append((f"`{advice.rule}`", advice.title, lines + f" (uWSGI {advice.needs})" * bool(advice.needs)))
    yield from table(("rule", "what hurts", "line, for example"), rows)


def list_rows() -> list[Kind]:
    modules = [each for each in vars(findings).values() if isinstance(each, ModuleType)]
    rows = dict.fromkeys(row for module in modules for row in vars(module).values() if isinstance(row, Kind))
    return sorted(rows, key=lambda row: (row.code, SEVERITIES.index(row.severities[0]), row.title))


def show(template: str, severity: Severity) -> str:
    """A template as people read it: `…` stands for a value, an optional part is in brackets. A part that names
    a severity first is there for this severity alone."""
    others = {*SEVERITIES} - {severity}
    for holds in (severity, *(f"not {each}" for each in others)):
        template = re.sub(rf"\[{holds}\? ([^]]*)\]", r"\1", template).replace(f"[{holds}, ", "[")
    for fails in (f"not {severity}", *others):
        template = re.sub(rf"\[{fails}[,?] [^]]*\]", "", template)
    template = re.sub(r"\[[\w, ]+\? ( *)([^]]*?)( *)\]", r"\1[\2]\3", template)
    return re.sub(r"\{[^{}]*\}", _show_fact, template).strip()


def _show_fact(match: re.Match[str]) -> str:
    """The plural of a choice of words, `Workers …` for the ids of workers, and `…` for anything else."""
    how = match[0][1:-1].partition(":")[2]
    if "|" in how:
        return how.split("|")[1]
    return f"{how}s …" if how[:1].isupper() else "…"


def findings_page() -> Iterator[str]:
    for code, group in groupby(list_rows(), key=lambda row: row.code):
        found = [(row, severity) for row in group for severity in row.severities]
        titles: dict[str, dict[str, None]] = {}
        several = len({show(row.meaning, severity) for row, severity in found}) > 1
        for row, severity in found:
            is_page = severity == "critical" and row.page_after != PAGE_AFTER
            words = f"{severity.upper()} (a page after {row.page_after:g} s)" if is_page else severity.upper()
            titles.setdefault(show(row.title + f" {row.meaning}" * several, severity), {})[words] = None
        acts = dict.fromkeys(show(f"{row.act} {row.then}", each) for row, each in found if show(row.act, each))
        yield from (f"### {code}", "")
        yield from (f"- **{', '.join(severities)}** {title}" for title, severities in titles.items())
        yield from ("", f"A {found[0][0].role}. {show(row.meaning, severity) * (not several)}".rstrip(), "")
        yield from (f"- Do: {act}" for act in acts)
        if runbook := RUNBOOKS.get(code):
            yield f"- Runbook: [{runbook}](../alerts/runbooks/{runbook}.md)"
        yield ""


COMMENT = ("<!--", "-->")
"""How a comment begins and ends in Markdown."""


def replace_section(text: str, name: str, section: str, comment: tuple[str, str] = COMMENT) -> str:
    """The text with a new section between its marks, `<!-- NAME -->` and `<!-- /NAME -->`. Raises ValueError without
    them."""
    before, _, after = _split(text, name, comment)
    return f"{before}{section}{after}"


def read_section(text: str, name: str) -> str:
    return _split(text, name, COMMENT)[1]


def _split(text: str, name: str, comment: tuple[str, str]) -> tuple[str, str, str]:
    """The text up to the end of the first mark, between the marks, and from the second one on."""
    opening, closing = comment
    first, last = f"{opening} {name} {closing}\n", f"{opening} /{name} {closing}"
    before, begin, rest = text.partition(first)
    section, end, after = rest.partition(last)
    if not end:
        raise ValueError(f"there are no marks named {name!r}")
    return before + begin, section, end + after
