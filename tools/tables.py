"""Makes the tables of documents: from data, such as alerts, metrics and settings, and from the exporter's source.

Each function yields the lines of one section as Markdown, which stands between marks. `tools.generate` says in which
document.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import yaml
from prometheus_client.metrics_core import Metric

from app.scenes import SCENES
from tests.support.observations import HEALTH, everything
from tools.environments import ROOT
from tools.scenarios.rows import ROWS
from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.findings import RUNBOOKS, SEVERITIES, Severity
from uwsgi_headroom.analysis.findings.kind import PAGE_AFTER, Kind
from uwsgi_headroom.analysis.settings import list_rules
from uwsgi_headroom.analysis.worker_states import RECYCLED
from uwsgi_headroom.arguments.commands import make_command_line
from uwsgi_headroom.config.settings import FLAGS
from uwsgi_headroom.documents.openapi import describe_api
from uwsgi_headroom.history.events import JOINED, KINDS, Cause
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
"""By an alert: its runbook, where that has another name; empty where each finding has its own."""
SUMMARIES = {
    "UwsgiUsersHurt": "The exporter's judge finds that users are hurt now. The alert says what, why and what to do.",
    "UwsgiWillHurt": "The exporter's judge finds what hurts some users, or soon will.",
}
DASHBOARD = ROOT / "dashboards" / "out" / "server.json"
"""The dashboard that has all marks of events."""

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
    """The alerts, the most severe first; one row for each name, with the summary of its runbook."""
    order = ("critical", "warning", "info")
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    by_name: dict[str, list[str]] = {}
    for rule in rules:
        by_name.setdefault(rule["alert"], []).append(rule["labels"]["severity"])
    rows = []
    for name, severities in by_name.items():
        named = [severity for severity in order if any(severity in text for text in severities)]
        book = RUNBOOK_OF_ALERT.get(name, name)
        summary = (RUNBOOK_FOLDER / f"{book}.md").read_text().split("\n\n")[1] if book else SUMMARIES[name]
        rows.append((f"[{name}](../alerts/runbooks/{book}.md)" if book else name, " or ".join(named), summary))
    yield from table(("alert", "severity", "when"), sorted(rows, key=lambda row: order.index(row[1].split(" or ")[0])))


def metrics() -> Iterator[str]:
    scrape = group_by_kind(everything(), HEALTH)
    for title, tables in SECTIONS.items():
        yield f"## {title}"
        yield ""
        found = [family for family in tabulate(tables, scrape) if family.samples]
        yield from table(("metric", "type", "labels", "what it says"), map(_metric, found))
        yield ""


def _metric(metric: Metric) -> tuple[str, str, str, str]:
    """The row of a metric. Its labels are shown without `server`, and without the `le` of histograms."""
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    labels = {name for sample in metric.samples for name in sample.labels} - {"server", "le"}
    shown = ", ".join(f"`{label}`" for label in sorted(labels))
    return f"`{name}`", metric.type, shown, metric.documentation.replace("|", r"\|")


def api_documents() -> Iterator[str]:
    """The keys of each document of the API with their types, and of the objects in them; their meaning and units."""
    schemas: dict[str, dict[str, Any]] = describe_api()["components"]["schemas"]
    rows = []
    for name, schema in schemas.items():
        keys = ", ".join(f"`{key}` {_type(of)}" for key, of in schema["properties"].items())
        rows.append((f"`{name}`", keys, schema["description"].replace("|", r"\|")))
    yield from table(("object", "keys", "what they mean"), rows)


def _type(schema: Mapping[str, Any]) -> str:
    """The type of a value in words: `list of Worker`, `number or null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(json.dumps(value) for value in schema["enum"])
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return f"list of {_member(schema['items'])}"
    if kind == "object":
        return f"object of {_member(schema['additionalProperties'])}"
    return kind


def _member(schema: Mapping[str, Any]) -> str:
    """The type of what is in a list or an object: `(number or null)`."""
    kind = _type(schema)
    return f"({kind})" if " or " in kind else kind


def event_kinds() -> Iterator[str]:
    """The kinds of events, with the mark that shows each in Grafana."""
    marks = _read_marks()
    texts = read_texts("kinds")
    rows = [(f"`{kind}`", texts[kind], "yes" if kind in JOINED else "", marks.get(kind, "")) for kind in KINDS]
    yield from table(("kind", "what happened", "joined", "mark in Grafana"), rows)


def read_texts(name: str) -> dict[str, str]:
    """What docs/history.md says of each kind or cause, in the order of its table. Raises ValueError for a text without
    its number in `NUMBERS`."""
    _, _, *rows = read_section((ROOT / "docs" / "history.md").read_text(), name).splitlines()
    cells = (row.removeprefix("| `").removesuffix(" |").split(" | ") for row in rows)
    texts = {code.rstrip("`"): text for code, text, *_ in cells}
    for code in NUMBERS.keys() & texts.keys():
        if f" {NUMBERS[code]:g} " not in texts[code]:
            raise ValueError(f"docs/history.md, {code}: the number is {NUMBERS[code]:g}")
    return texts


def _read_marks() -> dict[str, str]:
    """By kind: the mark that shows it, as the dashboard has it."""
    marks: dict[str, str] = {}
    for annotation in json.loads(DASHBOARD.read_text())["annotations"]["list"]:
        kinds = re.search(r'kind=~"([\w|]+)"', annotation["expr"])
        shown = annotation["name"] if annotation["enable"] else f"{annotation['name']} (off at first)"
        marks.update(dict.fromkeys(kinds[1].split("|") if kinds else (), shown))
    return marks


def log_messages() -> Iterator[str]:
    """The known messages of uWSGI's log, in the order of their subjects."""
    proofs = {
        None: "",
        "pid_gone": "the process is gone",
        "respawns": "respawns grow",
        "harakiris": "harakiris grow",
        "exceptions": "exceptions grow",
        "write_errors": "write errors grow",
        "cache_full": "the cache's refusals grow",
        "uncalled": "requests without a call grow",
        "request_line": "PID, counters and bytes fit",
        "queue_full": "a queue is at its limit",
        "no_application": "a worker has no application",
    }
    roles = {
        "rejected": "`requests_rejected`",
        "failed": "`log_failure`",
        "setting": "`log_setting`",
        "known": "none of its own; others quote it",
        "event": "",
    }
    for_people = {"worker": "a worker", "signal": "…", "limit": "…"}
    rows = [
        (f"`{message.code}`", message.says.format(**for_people), proofs[message.proof], roles[message.role])
        for message in MESSAGES
    ]
    yield from table(("message", "what it says", "proof", "finding"), rows)


def event_causes() -> Iterator[str]:
    """The likely causes of a worker's end, in the order in which they are tried."""
    texts = read_texts("causes")
    causes = sorted(CAUSES, key=list(texts).index)
    yield from table(("cause", "evidence"), [(f"`{cause}`", texts[cause]) for cause in causes])


def scenes() -> Iterator[str]:
    rows = [(f"`{scene.name}`", scene.summary, scene.shown.replace("\n", " "), f"{scene.cores:g}") for scene in SCENES]
    yield from table(("SCENE", "situation", "what you see", "CPUs"), rows)


def settings() -> Iterator[str]:
    """The flags of the exporter and their variables, from the rows of the settings."""
    rows = []
    for setting in FLAGS:
        form = setting.flag if setting.is_switch else setting.form
        repeatable = ", repeatable" if setting.is_repeatable else ""
        default = str(setting.default) if setting.default else ""
        rows.append((f"`{form}`{repeatable}", f"`{setting.variable}`", default))
    yield from table(("flag", "environment", "default"), rows)


def tune_flags() -> Iterator[str]:
    flags = make_command_line().commands["tune"].flags
    yield from table(("flag", "what it does"), [(f"`{flag.form}`", flag.help) for flag in flags if flag.name != "help"])


def complaints() -> Iterator[str]:
    """The table of complaints as it stands, but for the third cell: the codes that the named scenarios expect first, or
    their outcome. What follows a semicolon there stays. Raises KeyError for a scenario that does not exist."""
    expected = {row.name: row.expected for row in ROWS}
    head, line, *rows = read_section((ROOT / "docs" / "complaints.md").read_text(), "complaints").splitlines()
    yield from (head, line)
    for row in rows:
        complaint, made_at, said, names, needs = row.removeprefix("| ").removesuffix(" |").split(" | ")
        found = [expected[name] for name in names.split("; ")]
        codes = [f"`{code}`" if code else each.outcome.upper() for each in found for code in each.first or ("",)]
        more = said.partition("; ")[1:]
        yield f"| {complaint} | {made_at} | {', '.join(dict.fromkeys(codes))}{''.join(more)} | {names} | {needs} |"


PACKAGE = ROOT / "exporter" / "uwsgi_headroom"

MODULES = {
    "A stats document": "uwsgi_headroom.stats.bounds",
    "Routes": "uwsgi_headroom.routes",
    "Reading": "uwsgi_headroom.watch.pace",
    "Documents in transfer": "uwsgi_headroom.source.stream",
    "Lists of connections in listen queues": "uwsgi_headroom.kernel.backlogs",
    "Requests in listen queues that are followed": "uwsgi_headroom.history.response_times.queue_waits",
    "When a server counts as up": "uwsgi_headroom.watch.watch",
    "Servers that patterns find": "uwsgi_headroom.watch.globbed",
    "Workers of servers that patterns find": "uwsgi_headroom.watch.reader",
    "Probes": "uwsgi_headroom.watch.probed",
    "The history file": "uwsgi_headroom.store.writer",
    "Names in the history file": "uwsgi_headroom.store.codec",
    "The HTTP face": "uwsgi_headroom.web.bounds",
    "Passwords that wait for their check": "uwsgi_headroom.web.security.login",
    "Logins that are remembered, and clients with wrong passwords": "uwsgi_headroom.web.security.login",
}
"""By title: the module that keeps these bounds."""

_VALUE = "…"


def rules() -> Iterator[str]:
    rows = [
        (
            f"`{advice.rule}`",
            advice.title,
            "<br>".join(f"`{line}`" for line in advice.lines) or advice.change,
            advice.needs or "any",
            advice.unless,
        )
        for advice in list_rules()
    ]
    yield from table(("rule", "what hurts", "line, for example", "uWSGI", "does not matter if"), rows)


def read_imports(package: Path = PACKAGE) -> dict[str, frozenset[str]]:
    """By folder, and by module beside the folders: the other ones that it imports, also for types alone."""
    imports: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        part = path.relative_to(package).parts[0].removesuffix(".py")
        if not part.startswith("__"):
            imports.setdefault(part, set()).update(_imported_parts(ast.parse(path.read_text())))
    return {part: frozenset(imported & imports.keys() - {part}) for part, imported in imports.items()}


def _imported_parts(tree: ast.Module) -> Iterator[str]:
    """What stands behind the package's name in each import."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name.split(".")[1] for name in names if name.startswith(f"{PACKAGE.name}."))


def bounds() -> Iterator[str]:
    """Every bound of the exporter with its reason, in a section for each part."""
    for title, module in MODULES.items():
        yield f"### {title}"
        yield ""
        yield f"`{module}`"
        yield ""
        yield from table(("bound", "value", "why"), _bounds(module))
        yield ""


def _bounds(module: str) -> Iterator[tuple[str, str, str]]:
    """Yields the name, value and reason of each constant of a module, and of each entry of its dictionaries."""
    imported = import_module(module)
    text = Path(str(imported.__file__)).read_text()
    body = ast.parse(text).body
    for place, node in enumerate(body):
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        if not isinstance(target, ast.Name) or not target.id.isupper() or target.id.startswith("_"):
            continue
        value = getattr(imported, target.id)
        if isinstance(value, dict):
            comments = dict(re.findall(r'^ +"(.+)": .*?,(?:  # (.*))?$', text, re.MULTILINE))
            yield from ((name, f"{most:,}", comments[name]) for name, most in value.items())
        elif isinstance(value, (int, float, tuple)):
            reason = _reason(body[place + 1 : place + 2])
            if reason:  # a constant without a reason is not a bound
                yield f"`{target.id}`", _shown(value), reason


def _shown(value: float | tuple[float, ...]) -> str:
    if not isinstance(value, tuple):
        return f"{value:,}"
    is_range = list(value) == sorted(value)  # else these are two different things
    return (" to " if is_range else " and ").join(map(_shown, value))


def _reason(after: list[ast.stmt]) -> str:
    if after and isinstance(after[0], ast.Expr) and isinstance(after[0].value, ast.Constant):
        return " ".join(str(after[0].value.value).split())
    return ""


def list_rows() -> list[Kind]:
    """The rows of all modules of rules, by code, the most severe first."""
    modules = [each for each in vars(findings).values() if isinstance(each, ModuleType)]
    rows = dict.fromkeys(row for module in modules for row in vars(module).values() if isinstance(row, Kind))
    return sorted(rows, key=lambda row: (row.code, SEVERITIES.index(row.severities[0]), row.title))


def show(template: str, severity: Severity) -> str:
    """A template as people read it: `…` stands for a value, and an optional part is in brackets, unless it belongs to a
    severity, which its part names first: then it is there for this one."""
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
    """The page below its introduction."""
    for code, group in groupby(list_rows(), key=lambda row: row.code):
        found = [(row, severity) for row in group for severity in row.severities]
        titles: dict[str, dict[str, None]] = {}
        for row, severity in found:
            is_page = severity == "critical" and row.page_after != PAGE_AFTER
            words = f"{severity.upper()} (a page after {row.page_after:g} s)" if is_page else severity.upper()
            titles.setdefault(show(row.title, severity), {})[words] = None
        meanings = dict.fromkeys(show(row.meaning, severity) for row, severity in found)
        acts = dict.fromkeys(show(f"{row.act} {row.then}", each) for row, each in found if show(row.act, each))
        yield from (f"### {code}", "")
        yield from (f"- **{', '.join(severities)}** {title}" for title, severities in titles.items())
        yield from ("", f"A {found[0][0].role}. {' '.join(filter(None, meanings))}".rstrip(), "")
        yield from (f"- Do: {act}" for act in acts)
        if runbook := RUNBOOKS.get(code):
            yield f"- Runbook: [{runbook}](../alerts/runbooks/{runbook}.md)"
        yield ""


COMMENT = ("<!--", "-->")
"""How a comment begins and ends in Markdown."""


def replace_section(text: str, name: str, section: str, comment: tuple[str, str] = COMMENT) -> str:
    """The text with a new section between the marks `<!-- NAME -->` and `<!-- /NAME -->`. Raises ValueError if
    the text has no such marks."""
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
