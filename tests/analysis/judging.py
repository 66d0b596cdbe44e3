"""Judges windows of simulated servers: the findings by code, each with the row that says it."""

from collections.abc import Iterable

from msgspec.structs import fields, replace

from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import Figures, Known, compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.record import ConcurrencyKind, Options, ServerRecord, Setup

AT = 1000.0
"""The time of a server's last reading."""

FACTS, PARTS = ({each.name for each in fields(kind)} for kind in (HostFacts, Reading))


def describe(server: Server | None = None, **known: object) -> ServerRecord:
    """What is known of a server at AT. known: what differs from a simulated one, by the names of fields: of the facts
    of the kernel, else of the reading, else of the record."""
    facts = {name: known.pop(name) for name in FACTS & known.keys()}
    parts = {name: known.pop(name) for name in PARTS & known.keys()}
    reading = replace((server or Server()).read(AT), **parts)
    record = describe_server(replace(reading, host=replace(reading.host, **facts)))
    return replace(record, **known)


def figures_of(of: Window, record: ServerRecord | Server | None = None, **more: object) -> Figures:
    """The figures of a window that ends with this reading. more: what else is `Known`."""
    return compute_figures(Known(of, record if isinstance(record, ServerRecord) else describe(record), **more))


def judge(of: Window, record: ServerRecord | Server | None = None, **more: object) -> dict[str, Finding]:
    """The findings about a window, by code, in their order."""
    return by_code(collect_findings(figures_of(of, record, **more)))


def findings_by_code(of: Window, server: Server | None = None, **known: object) -> dict[str, Finding]:
    """The same, where the code of a harm that another finding explains leads to that one. known: see `describe`."""
    found = judge(of, describe(server, **known))
    return found | {harm.code: finding for finding in found.values() for harm in finding.harms}


def by_code(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {finding.code: finding for finding in findings}


def severity(found: dict[str, Finding], code: str) -> str | None:
    return found[code].severity if code in found else None


def idle(seconds: float = 60.0, workers: int = 4) -> Window:
    """A window of workers that have room everywhere."""
    return window(seconds, *(worker(number, 500, each=0.01, cpu=0.5, busy=5.0) for number in range(1, workers + 1)))


def change_workers(of: Window, *worker_ids: int, **changes: object) -> Window:
    """The window with these workers changed, by default all, and as many respawns as they have."""
    rows = tuple(
        replace(each, **changes) if each.worker_id in worker_ids or not worker_ids else each for each in of.workers
    )
    return replace(of, workers=rows, respawns=sum(each.respawns for each in rows))


def setup(kind: ConcurrencyKind | None = "threads", **options: object) -> Setup:
    """A set-up with these options, where requests are served in this way."""
    return Setup(Options(**options), 4096, kind, None, None)
