"""Harms are joined to the cause that explains them: one block and one change."""

import pytest
from msgspec.structs import replace

from tests.analysis import judging
from tests.analysis.judging import AT, describe, figures_of, findings_by_code
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.advice import connections_hold_threads
from uwsgi_headroom.analysis.findings import (
    ROWS,
    Finding,
    Severity,
    collect_findings,
    find_harm,
    first_act,
    lock_waits,
)
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import Outage, Setup
from uwsgi_headroom.words.formats import rate

TWO = Server(processes=2, threads=4, cpus=8.0)


def judge(of: Window, server: Server = TWO, setup: Setup | None = None) -> list[Finding]:
    return collect_findings(figures_of(of, describe(server, **({"setup": setup} if setup else {}))))


def full(waits: dict[str, float] | None, *, queued: float = 30.0, refused: float = 0.0, **more: object) -> Window:
    """A minute of two workers whose four threads are all in service, while requests wait."""
    rows = (worker(number, 600, each=0.2, cpu=0.6, busy=240.0) for number in (1, 2))
    queues = {"queue_seconds": {"app.sock": 60 * queued}, "queue_full_seconds": {"app.sock": 60 * refused}}
    return replace(window(60, *rows, waits=waits, **more), full_seconds=60.0, **queues)


def test_three_harms_of_one_cause_are_one_block():
    """Refused clients, the wait and full threads come of the lock: one block has them as evidence, and one change."""
    grave = [finding for finding in judge(full({"lock": 7.0, "sleep": 1.0}, refused=0.2)) if finding.severity != "info"]
    (block,) = grave
    assert (block.code, block.severity) == ("application_lock", "critical")
    assert [harm.code for harm in block.harms] == ["clients_refused", "queue_wait", "saturation"]
    assert "Raise `threads`" not in block.change
    assert block.change.count("If the queue fills only in bursts") == 1


@pytest.mark.parametrize(
    ("waits", "code"),
    [
        ({"lock": 8.0}, "application_lock"),
        ({"client": 8.0}, "slow_clients"),
        ({"backend": 8.0}, "waits_for_backend"),
        ({"sleep": 8.0}, "saturation"),
        (None, "saturation"),
    ],
)
def test_the_deepest_cause_is_named(waits, code):
    """Busy threads are the cause only where nothing explains why they are busy. Threads in use are said once, with what
    they wait for, also without a queue."""
    first, *_ = judge(full(waits))
    assert (first.code, first.severity) == (code, "critical")
    assert first.title.startswith("Requests wait in the listen queue: ")
    grave = [finding for finding in judge(full(waits, queued=0.0)) if finding.severity != "info"]
    assert [[harm.code for harm in finding.harms] for finding in grave] == [["saturation"] * (code != "saturation")]


@pytest.mark.parametrize(("completed", "is_cause"), [(30, True), (500, True), (700, False)])
def test_requests_that_are_killed_hold_the_threads(completed, is_cause):
    """Each worker has a thread, and `harakiri` ends requests that hold it for most of the time. What the completed ones
    took promises nothing of more workers then. If they take most of the time, they are what has to be served."""
    rows = (worker(number, completed, each=0.05, busy=60.0) for number in (1, 2, 3, 4))
    killed = replace(window(60, *rows, waits={"sleep": 4.0}, app=120.0), full_seconds=60.0, harakiris=16, respawns=16)
    found = {finding.code: finding for finding in judge(killed, Server(processes=4, threads=1, cpus=8.0))}
    assert ("queue_wait" in found or "saturation" in found) != is_cause
    assert ({harm.code for harm in found["harakiri"].harms} >= {"queue_wait", "saturation"}) == is_cause
    assert "Raise `processes`" not in found["harakiri"].change


CALM = window(60, *(worker(n, 600, each=0.1, cpu=0.6, busy=60.0) for n in (1, 2)), waits={"sleep": 2.0}, app=120.0)


@pytest.mark.parametrize(
    ("of", "cause", "change"),
    [
        (CALM, "it is not known why.", "Run `py-spy dump --pid 101` "),
        (replace(CALM, full_seconds=6.0), "bursts fill all threads.", "Raise `"),
    ],
)
def test_without_a_cause_nothing_is_advised(of, cause, change):
    """Requests wait while threads are free all the time, and it is known what they wait for: more would be free too."""
    first, *_ = judge(of)
    assert first.title.endswith(f": {cause}")
    assert first.change.startswith(change)
    assert ("Set `threads`" in first.public.act) == ("Raise" in change)


@pytest.mark.parametrize(("requests", "severity"), [(10, "warning"), (40, "critical")])
def test_a_few_requests_that_met_by_chance_are_not_critical(requests, severity):
    """Ten requests in a minute, of which three met, wait as long on average as they are served: nobody needs a call.
    With four times as many, somebody waits nearly all the time."""
    rare = window(60, worker(1, requests, each=0.93, cpu=4.0, busy=0.93 * requests), app=0.95 * requests)
    assert findings_by_code(rare, Server(processes=1, threads=1, cpus=1.0))["queue_wait"].severity == severity


def test_harakiri_that_cannot_fire_is_not_advised():
    """With threads, each further request of the worker resets its timer."""
    server = Server(processes=2, threads=4)
    server[1].request_starts = (int(server.read(AT).time) - 90,)
    stuck = findings_by_code(full(None, queued=0.0), server, setup=judging.setup(harakiri=5))["request_stuck"]
    assert "`harakiri` (5 s) does not end these requests" in stuck.change
    assert "as the last resort" not in stuck.change


def test_an_outage_is_said():
    """After an outage the verdict is the outage, not what its end did to the figures."""
    of = window(5, *(worker(number, 30, each=0.1, busy=0.5) for number in (1, 2)))
    first, *_ = judging.judge(of, TWO, outage=Outage(20.0, TWO.read(AT).time)).values()
    assert (first.code, first.severity) == ("was_down", "warning")
    assert "5.0 s" in first.evidence


@pytest.mark.parametrize(
    ("scope", "kind"), [("worker", lock_waits.LOCK), ("file", lock_waits.LOCK_OF_ALL), (None, lock_waits.LOCK)]
)
def test_what_a_lock_permits(scope, kind):
    """Where it is known how much a lock is held, the finding has its limit, and says whether processes help."""
    lock = LockFigures(scope, 0.08, 0.6, 0.82, 83.0, 83.0, 83.0) if scope else None
    first, *_ = collect_findings(replace(figures_of(full({"lock": 8.0}), TWO), lock=lock))
    assert first.kind is kind
    assert ("At most 83" in first.evidence) == bool(scope)


@pytest.mark.parametrize(("waiting", "held"), [(300.0, True), (0.0, False)])
def test_clients_that_keep_their_connections(waiting, held):
    """Requests wait while uWSGI calls nearly all threads free, and the kernel sees them wait for clients: they wait for
    the next request of a connection. Slow clients would be in service."""
    rows = [worker(number, 60, each=0.05, cpu=0.1, busy=6.0) for number in (1, 2)]
    kept = window(60, *rows, waits={"client": 0.15, "sleep": 0.05}, **{"app.sock": waiting})
    assert connections_hold_threads(figures_of(kept, TWO)) is held
    grave = [(each.severity, "`http11-socket`" in each.change) for each in judge(kept) if each.severity != "info"]
    assert grave == [("critical", True)] * held


def test_settings_stand_beside_the_words():
    """What the advice sets to a number is in the finding, too, and so is what it promises."""
    first, *_ = judge(full({"backend": 3.6, "sleep": 3.6, "cpu": 0.8}))
    ((option, value),) = first.settings
    assert f"Raise `{option}` from 4 to {value}" in first.change
    assert f"at least {rate(first.serves)}" in first.change
    assert judge(full({"lock": 8.0}))[0].settings == ()


def test_nothing_is_promised_to_requests_that_sleep():
    """A sleep until a rate limit lets a request go on looks like any other, and more threads would sleep as well."""
    first, *_ = judge(full({"sleep": 8.0}))
    assert first.serves is None
    assert "serves at least" not in first.change
    assert first_act(first.change).startswith("Raise `threads` from 4 to 26: on average")
    assert "If requests sleep because of a rate limit" in first.change


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, (("cheaper", 3), ("cheaper-initial", 3))),
        ({"cheaper": 1, "cheaper_initial": 3}, (("cheaper", 3),)),
        ({"cheaper": 3}, ()),  # `cheaper` goes, so that all workers run
    ],
)
def test_cheaper_mode_keeps_workers_in_reserve(options, settings):
    """Requests wait while the workers in reserve are not spawned: more processes would stay in reserve as well."""
    server = Server(processes=4, threads=1, cpus=8.0)
    server.cheap(3)
    server.cheap(4)
    rows = [worker(number, 300, each=0.2, cpu=0.6, busy=60.0) for number in (1, 2)]
    of = window(60, *rows, waits={"sleep": 2.0}, app=300.0)
    first, *_ = judge(of, server, judging.setup(**options))
    assert first.settings == settings
    assert ("Remove `cheaper`" in first.change) == (not settings)


def test_the_worst_harm_is_that_of_the_verdict():
    """A refusal comes before a wait, as harm or as the finding itself; full threads are a harm only while they hurt."""

    def found(code: str, severity: Severity = "critical", *harms: Finding) -> Finding:
        kind = next(row for row in ROWS if row.code == code)
        return Finding(code=code, severity=severity, title="It is.", evidence="So.", kind=kind, harms=harms)

    refused, waits, full = found("clients_refused"), found("queue_wait"), found("saturation", "warning")
    assert find_harm([found("saturation", "critical", waits, refused), found("exceptions")]) == "clients_refused"
    assert find_harm([found("application_lock", "warning", full)]) is None
    assert find_harm([found("exceptions"), waits]) is None
    assert find_harm([waits]) == "queue_wait"
    assert find_harm([]) is None
