"""Observations to render: captured documents as readings at a fixed time, and a server that is down."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace
from prometheus_client.metrics_core import Metric

from tests.support.captured_documents import NAMES, document
from uwsgi_headroom import stats
from uwsgi_headroom.analysis.deploys.judgement import Subject
from uwsgi_headroom.analysis.figures import Known, compute_figures
from uwsgi_headroom.analysis.findings import Held
from uwsgi_headroom.analysis.findings.kind import Kind
from uwsgi_headroom.analysis.percentiles import SHARES, Percentile, ResponseTimes
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import ReadError, Reason, SourceError
from uwsgi_headroom.history.code_time import OTHER, OUTSIDE_OF_PYTHON, CodePlace, CodeTotals
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.kernel.backlogs import ListenOverflows
from uwsgi_headroom.kernel.cpus import CpuTimes, Throttling, UsableCpus
from uwsgi_headroom.kernel.facts import HostFacts, Memories
from uwsgi_headroom.kernel.memory import AvailableMemory, OomKills, WorkerMemory
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.metrics import families
from uwsgi_headroom.metrics.exposition import END, render_family
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.record import Backlog, MemoryPressure, Options, Quota, Setup, Waits
from uwsgi_headroom.routes import ServedRoutes
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.surroundings import RoleUse, SharedConnection, Tasks, TrackedConnections
from uwsgi_headroom.uwsgi_log.log import LogTotals
from uwsgi_headroom.watch.observation import ExporterHealth, HistoryHealth, LastReload, NotWatched, Observation, Pattern
from uwsgi_headroom.watch.pace import Pace
from uwsgi_headroom.watch.recorder import Verdict

WHEN = 1795250100.25
"""A time after every capture, in epoch seconds."""

UNPROVEN = HostFacts(off="the stats did not come from a socket")


CODE = CodeTotals(
    {
        CodePlace("query_orders", "/srv/shop/orders.py", "backend"): 12.5,
        CodePlace("query_orders", "/srv/shop/orders.py", "cpu"): 0.5,
        CodePlace(OUTSIDE_OF_PYTHON, "", "cpu"): 0.25,
        CodePlace(OTHER, "", "lock"): 1.75,
    },
    observed_seconds=60.0,
)

ROUTES = ServedRoutes(("other", "POST /export", "GET /orders/{id}"), (1, 1, 1), {1: {0: 1, 1: 2}})


def reading(body: bytes, host: HostFacts = UNPROVEN, routes: ServedRoutes | None = None) -> Reading:
    return Reading(
        at=1000.0,
        time=WHEN,
        read_seconds=0.00125,
        transfer_seconds=0.00025,
        document_bytes=len(body),
        snapshot=stats.decode(body),
        host=host,
        routes=routes,
    )


SLO = Slo(0.8, 0.99)


def _subject(name: str, outcome: Reading | ReadError, errors: dict[Reason, int], slo: Slo | None = None) -> Observation:
    """A server after its first sample: it has totals, but no window yet."""
    integrals = Integrals(slo.threshold if slo else None)
    if isinstance(outcome, Reading):
        integrals.add(outcome, longest_step=1.0)
    address = f"unix:///run/uwsgi/{name}.stats"
    return Observation(name, address, outcome, errors, integrals.totals, Pace(), [], slo=slo)


def up(
    name: str,
    body: bytes | None = None,
    host: HostFacts = UNPROVEN,
    routes: ServedRoutes | None = None,
    slo: Slo | None = None,
) -> Observation:
    """A server that answered with a captured document, by default the document of its name."""
    return _subject(name, reading(document(name) if body is None else body, host, routes), {}, slo)


def down(name: str) -> Observation:
    """A server that did not answer."""
    return _subject(name, SourceError("refused", "connection refused"), {"refused": 3})


WAIT = Kind(
    code="queue_wait",
    role="harm",
    severity="critical",
    title="Requests wait in the listen queue.",
    evidence="On average, 4.8 requests wait for 120 ms.",
    act="Raise `threads`.",
).found()
"""A finding as alerts know it."""


def proven(name: str, called: str = "") -> Observation:
    """A server with an objective, whose processes and queues are known from the kernel, and whose routes and code are
    on."""
    body = document(name)
    snapshot = stats.decode(body)
    assert isinstance(snapshot, Snapshot)
    pids = [worker.pid for worker in snapshot.workers if worker.pid]
    processes = {
        pid: WorkerProcess(
            pid, 1.5 + place, 0.25, 20_000_000, 100, 7, 12, (place,), place, 1e9, most_fds=1024, threads=9
        )
        for place, pid in enumerate(pids)
    }
    host = HostFacts(
        processes=processes,
        backlogs={socket.name: Backlog(3, 100, None) for socket in snapshot.sockets},
        cpus=UsableCpus(1.5, "quota", 8, 8, 1.5),
        throttling=Throttling(Quota("/system.slice/uwsgi.service", 1.5, 8)),
        overflows=ListenOverflows(4, 5, opened=7),
        memory=Memories(
            WorkerMemory(15_000_000, "uss", 15_000_000 * len(pids), dict.fromkeys(pids[:2], 15_000_000)),
            AvailableMemory(100_000_000, "cgroup", MemoryPressure(0.12, 0.03, "cgroup")),
        ),
        setup=Setup(
            options=Options(
                harakiri=30,
                listen=100,
                source={"harakiri": "app.ini", "listen": "command line"},
                names_application=True,
            ),
            somaxconn=4096,
            concurrency_kind="threads",
            socket_holders=None,
            mapped=None,
        ),
        cpu_times=CpuTimes(),
        tasks=Tasks(30, 1000),
        tracked=TrackedConnections(13_107, 262_144, 0),
        oom_kills=OomKills(0, 3),
        roles=(RoleUse("master", 1, 3.0, 0.01, 20_000_000), RoleUse("mule", 2, 60.0, 1.0, 90_000_000)),
        shared_connections=(SharedConnection("10.0.0.5:5432", 4),),
        waits=Waits(
            threads={"cpu": 1.0, "interpreter_lock": 2.0, "backend": 4.0},
            interpreter_lock={1: 2.0},
            backends={"postgres": 3.0, "redis": 0.0},
            addresses={"postgres": "10.0.0.5:5432", "redis": "*:6379"},
            busy=8,
        ),
        spooled={spooler.directory: 3 for spooler in snapshot.spoolers},
    )
    verdict = Verdict("critical", "queue_wait", WHEN - 600, "queue_wait")
    wait = Held(WAIT, WAIT, WHEN - 600, 0.0, 600.0, 0.0, 2, is_page=True)
    observation = up(called or name, body, host, ROUTES, SLO)
    return replace(observation, code=CODE, verdict=verdict, loaded_at=WHEN - 900, alerts=[wait], judged_at=WHEN)


def render_families(rendered: Iterable[Metric], *, openmetrics: bool = False) -> bytes:
    texts = [render_family(family, openmetrics=openmetrics) for family in rendered]
    return "".join([*texts, END * openmetrics]).encode()


def of_uwsgi(observations: list[Observation]) -> list[Metric]:
    """The families that have samples of servers, without those of the exporter itself."""
    own = ("uwsgi_exporter_", "process_")
    return [family for family in families(observations) if family.samples and not family.name.startswith(own)]


def series(*observations: Observation) -> dict[str, float]:
    """The values of all series of these observations, by their text, without the exporter's own series."""
    lines = render_families(of_uwsgi(list(observations))).decode().splitlines()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    assert len({name for name, _, _ in pairs}) == len(pairs), "a series is there twice"
    return {name: float(value) for name, _, value in pairs}


def twice_the_share() -> ResponseTimes:
    """Percentiles of as many seconds as twice their share."""
    known = [Percentile(share=share, seconds=2 * share, low=share, high=3 * share) for share in SHARES]
    return ResponseTimes(requests=4000, interval=0.2, percentiles=tuple(known))


def watched(observation: Observation) -> Observation:
    """Returns the same server a minute and a thousand requests per worker later, so that it has windows."""
    reading = observation.outcome
    assert isinstance(reading, Reading)
    assert isinstance(reading.snapshot, Snapshot)
    workers = tuple(
        replace(worker, requests=(worker.requests or 0) + 1000, running_time=(worker.running_time or 0.0) + 100.0)
        for worker in reading.snapshot.workers
    )
    # With CPU residency, which is opt-in: each worker with a thread that stays on CPU 0.
    # If several waited beside free threads, the headroom would not be known.
    host = replace(
        reading.host,
        threads={pid: {pid: (0, 1.0)} for pid in reading.host.processes},
        backlogs={name: replace(backlog, queue=0) for name, backlog in reading.host.backlogs.items()},
    )
    later = replace(reading.snapshot, workers=workers)
    slo = observation.slo
    integrals, history = Integrals(slo.threshold if slo else None), History()
    for place in range(61):
        at = reading.at + place
        snapshot = later if place else reading.snapshot
        now = Reading(at, reading.time + place, 0.001, 0.001, 1, snapshot, host, reading.routes)
        integrals.add(now, longest_step=2.0)
        history.add(at, integrals.totals)
    window = history.window(60.0)
    server = describe_server(now)
    assert window is not None
    assert server is not None
    response_times = twice_the_share()
    return Observation(
        observation.name,
        observation.address,
        now,
        {},
        integrals.totals,
        observation.pace,
        [replace(compute_figures(Known(window, server)), response_times=response_times, queue_waits=response_times)],
        others_follow=False,
        slo=slo,
    )


HEALTH = ExporterHealth(
    history=HistoryHealth(is_written=True, size=1_000_000, dropped=0),
    reload=LastReload(is_successful=True, succeeded_at=1_780_000_000.0),
    patterns=[Pattern("/run/uwsgi/*.stats", found=2, expected=3, missing=1)],
    not_watched=[NotWatched("rights", 2, ("shop@www-data, PID 7",), "seen, not watched", "install it")],
)
"""An exporter that serves, and has a history file and a pattern."""


def everything() -> list[Observation]:
    """Returns servers of every captured document, those with kernel facts, one of them with windows and a log, one
    whose workers have sockets of their own, one with event loops, one that was found, and one that is down."""
    observations = [*[up(name) for name in NAMES], proven("spoolers", "proven spoolers")]
    log = LogTotals({"head_too_large": 3}, lines=1000, skipped_bytes=0, is_read=True)
    deploy_worse: Mapping[Subject, bool] = {"time": True, "cpu": False, "errors": False, "memory": False}
    with_log = replace(watched(proven("threads_4x8_busy", "watched")), log=log, deploy_worse=deploy_worse)
    optional = replace(up("idle_found", document("threads_4x8_busy")), is_optional=True)
    return [*observations, with_log, _mapped("mapped"), _with_loops("loops"), optional, down("down")]


def _mapped(called: str) -> Observation:
    setup = Setup(Options(), None, None, {"a.sock": (1,), "b.sock": (2,)}, mapped=True)
    return up(called, document("sockets_mapped"), HostFacts(setup=setup))


def _with_loops(called: str) -> Observation:
    waits = Waits(off="a worker serves all its requests on one thread", loops={})
    return up(called, document("threads_4x8_busy"), HostFacts(waits=waits))
