"""Makes the tables of documents: from data, such as alerts, metrics and settings, and from the exporter's source.

Each function yields the lines of one section as Markdown. `tools.generate` says which document has it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import yaml
from prometheus_client.metrics_core import Metric

from app.scenes import SCENES
from tests.support.observations import HEALTH, everything
from tools.environments import ROOT
from uwsgi_headroom.analysis.settings import list_rules
from uwsgi_headroom.arguments.commands import make_command_line
from uwsgi_headroom.config.settings import FLAGS
from uwsgi_headroom.documents.openapi import describe_api
from uwsgi_headroom.journal.events import JOINED, KINDS, Cause, Kind
from uwsgi_headroom.journal.recorder import GAP_SECONDS, JUDGE_SECONDS
from uwsgi_headroom.journal.workers import AWAY_SECONDS, REACHED, REACHED_REQUESTS
from uwsgi_headroom.metrics import SUBJECTS
from uwsgi_headroom.metrics.family import group_by_kind
from uwsgi_headroom.uwsgi_log.messages import MESSAGES

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

KIND_TEXTS: Mapping[Kind, str] = {
    "exporter_started": "The exporter made its first attempt to read this server.",
    "sampling_gap": f"There were no samples for more than {GAP_SECONDS:g} s although the server was not down: the "
    "exporter was stopped, or got no CPU.",
    "server_down": "The server counts as down; the evidence is the message of the failed read.",
    "server_up": "It was read again. The evidence says whether its master is the same process.",
    "reload": "uWSGI was reloaded or restarted, or all workers were replaced, at once or one after another; or another "
    "uWSGI has bound its socket to the same `stats` path, while the earlier master still runs, unwatched.",
    "worker_ended": "The process of a worker ended, or was replaced between two samples. It has a cause.",
    "worker_started": f"A worker is back that was away for {AWAY_SECONDS:g} s or longer.",
    "cheaper_up": "Cheaper mode spawned workers.",
    "cheaper_down": "Cheaper mode ended workers.",
    "configuration_changed": "The version, the number of workers or threads, the sockets or an option that the "
    "exporter reads has changed.",
    "log_message": "uWSGI's log, if it is [read](log.md), had a known message. Messages are joined by their sentence.",
    "deploy_judged": "What a reload changed is known: requests are slower, faster, or without a change "
    "([deploys](deploys.md)).",
    "verdict_changed": f"Two judgements in a row, at least {JUDGE_SECONDS:g} s apart, came to the same new verdict. "
    "Its time is that of the first.",
}

CAUSE_TEXTS: Mapping[Cause, str] = {
    "harakiri": "uWSGI's `harakiri_count` of the worker has grown. This one is certain: uWSGI says so itself.",
    "out_of_memory": "The kernel counted one more process killed for want of memory, in the master's cgroup or on the "
    "host, between the two samples. It does not count which process that was.",
    "max_requests": f"The process had served at least {REACHED_REQUESTS:g} of `max-requests` (uWSGI changes this "
    "number by `max-requests-delta` and the worker's number).",
    "max_worker_lifetime": f"The process was at least {REACHED:g} of `max-worker-lifetime` old.",
    "reload_on_rss": f"Its resident memory was at least {REACHED:g} of `reload-on-rss` or `evil-reload-on-rss` at the "
    "last sample.",
    "unknown": "None of these. The evidence is how long it lived, how many requests it served and how much memory it "
    "held. A crash, a kill from outside and an exit of the application look alike.",
}
"""In the order in which they are tried."""


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
    for families in SUBJECTS:
        found = [metric for metric in families(scrape) if metric.samples and not metric.name.startswith("process_")]
        yield f"## {_subject(families)}"
        yield ""
        yield from table(("metric", "type", "labels", "what it says"), map(_metric, found))
        yield ""


def _subject(families: Callable[..., object]) -> str:
    """The subject of a builder as a heading: that of `cpu_affinity_families` is `CPU affinity`. The subject of
    `families` is the name of its module."""
    name = families.__name__ if families.__name__ != "families" else families.__module__.rpartition(".")[2]
    words = name.removesuffix("_families").replace("_", " ")
    return (words[:1].upper() + words[1:]).replace("Cpu", "CPU").replace("Uwsgi log", "uWSGI's log")


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
    rows = [(f"`{kind}`", KIND_TEXTS[kind], "yes" if kind in JOINED else "", marks.get(kind, "")) for kind in KINDS]
    yield from table(("kind", "what happened", "joined", "mark in Grafana"), rows)


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
    causes = sorted(CAUSES, key=list(CAUSE_TEXTS).index)
    yield from table(("cause", "evidence"), [(f"`{cause}`", CAUSE_TEXTS[cause]) for cause in causes])


def scenes() -> Iterator[str]:
    rows = [(f"`{scene.name}`", scene.summary, scene.shown.replace("\n", " "), f"{scene.cores:g}") for scene in SCENES]
    yield from table(("SCENE", "situation", "what you see", "CPUs"), rows)


def settings() -> Iterator[str]:
    """The flags of the exporter and their variables, from the rows of the settings."""
    rows = []
    for setting in FLAGS:
        value = "" if setting.is_switch else f" {setting.metavar}"
        repeatable = ", repeatable" if setting.is_repeatable else ""
        default = str(setting.default) if setting.default else ""
        rows.append((f"`{setting.flag}{value}`{repeatable}", f"`{setting.variable}`", default))
    yield from table(("flag", "environment", "default"), rows)


def tune_flags() -> Iterator[str]:
    flags = make_command_line().commands["tune"].flags
    yield from table(("flag", "what it does"), [(f"`{flag.form}`", flag.help) for flag in flags if flag.name != "help"])


PACKAGE = ROOT / "exporter" / "uwsgi_headroom"

MODULES = {
    "A stats document": "uwsgi_headroom.stats.bounds",
    "Routes": "uwsgi_headroom.routes.shape",
    "Reading": "uwsgi_headroom.watch.pace",
    "Documents in transfer": "uwsgi_headroom.source.room",
    "Lists of connections in listen queues": "uwsgi_headroom.kernel.accept_queues",
    "Requests in listen queues that are followed": "uwsgi_headroom.response_times.queue_waits",
    "When a server counts as up": "uwsgi_headroom.watch.watch",
    "Servers that patterns find": "uwsgi_headroom.watch.globbed",
    "Workers of servers that patterns find": "uwsgi_headroom.watch.worker_places",
    "Probes": "uwsgi_headroom.watch.probed",
    "The history file": "uwsgi_headroom.store.writer",
    "Names in the history file": "uwsgi_headroom.store.database",
    "The HTTP face": "uwsgi_headroom.web.bounds",
    "Passwords that wait for their check": "uwsgi_headroom.web.security.passwords",
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


def imports() -> Iterator[str]:
    """What each folder of the package is for, and what else of the package it imports; what needs least comes first."""
    found = read_imports()
    rows = []
    for part in sorted(found, key=lambda part: (len(_reach(part, found)), part)):
        is_folder = (PACKAGE / part).is_dir()
        listed = ", ".join(f"`{name}`" for name in sorted(found[part]))
        rows.append((f"`{part}{'/' if is_folder else '.py'}`", _describe(part), listed))
    yield from table(("folder or module", "what it is", "imports"), rows)


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


def _reach(part: str, imports: Mapping[str, frozenset[str]]) -> set[str]:
    """All that it needs, directly or not."""
    reached: set[str] = set()
    waiting = [part]
    while waiting:
        new = imports[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def _describe(part: str) -> str:
    """The first sentence of its docstring."""
    file = PACKAGE / part / "__init__.py" if (PACKAGE / part).is_dir() else PACKAGE / f"{part}.py"
    words = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").split())
    return re.split(r"(?<=\.) ", words)[0].replace("|", r"\|")


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
