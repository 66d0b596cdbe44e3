"""Findings about windows, and windows without findings."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.support.simulated_server import EPOCH, Server
from tests.support.windows import the_example, the_harmless_one, window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import (
    RULES,
    Finding,
    collect_findings,
    evenness,
    limits,
    load,
    queue,
)
from uwsgi_headroom.analysis.findings.causes import NO_APPLICATION
from uwsgi_headroom.analysis.findings.clients import MOST_RAISE, RAISE
from uwsgi_headroom.analysis.findings.health import STUCK
from uwsgi_headroom.analysis.findings.kind import Kind
from uwsgi_headroom.analysis.findings.recycling import LIMIT_TOO_LOW
from uwsgi_headroom.analysis.verdict import verdict_sentence, worst_status
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.cpus import Throttling, UsableCpus
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.record import Backlog, Options, Quota, Setup
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.stats.raw import App
from uwsgi_headroom.stats.server import Worker

AT = 1000.0


def findings_by_code(window_: Window, server: Server | None = None, **changes: object) -> dict[str, Finding]:
    """The findings about a window that ends with this reading of a server, by code; a harm that another finding
    explains leads to that one."""
    reading = replace((server or Server()).read(AT), **changes)
    figures = compute_figures(window_, describe_server(reading))
    findings = collect_findings(figures)
    by_code = {finding.code: finding for finding in findings}
    return by_code | {harm.code: finding for finding in findings for harm in finding.harms}


def alone(window_: Window, server: Server | None = None, **changes: object) -> dict[str, Finding]:
    """The same before harms are joined to their causes."""
    reading = replace((server or Server()).read(AT), **changes)
    figures = compute_figures(window_, describe_server(reading))
    return {finding.code: finding for rule in RULES for finding in rule(figures)}


def with_cpus(server: Server, cpus: UsableCpus) -> Reading:
    reading = server.read(AT)
    return replace(reading, host=replace(reading.host, cpus=cpus))


def idle(seconds: float = 60.0, workers: int = 4) -> Window:
    return window(
        seconds, *(worker(worker_id, 500, each=0.01, cpu=0.5, busy=5.0) for worker_id in range(1, workers + 1))
    )


def test_a_quiet_server_has_no_findings() -> None:
    """Even workers with room everywhere have no finding at all."""
    assert findings_by_code(idle()) == {}


def test_a_hot_worker_is_reported_in_one_sentence() -> None:
    """43 % in one worker with a saturated interpreter, while threads in other workers are idle, is critical; the
    finding has the cost and the remedy."""
    by_code = findings_by_code(the_example(), Server(cpus=4.0))
    finding = by_code["unevenness_hurts"]
    assert (finding.kind, finding.severity, finding.worker_id) == (evenness.HURTS, "critical", 2)
    for figure in ("43 % of the requests", "669 ms, against 379 ms", "18 threads of other workers are idle"):
        assert figure in finding.evidence
    assert "125 ms (25 %) shorter" in finding.meaning
    assert "8x4 instead of 4x8" in finding.change
    assert "interpreter_bound" not in by_code, "the same problem is reported once"


def test_a_hot_worker_on_a_full_machine() -> None:
    """If no CPU is idle, all workers are slow for that reason: that is critical, and unevenness is not."""
    full = replace(the_example(), cpu=window(60, cpu=(2.3, 0.0, 1.7)).cpu)
    by_code = findings_by_code(full, Server(cpus=4.0))
    assert by_code["unevenness_hurts"].severity == "warning"
    assert next(iter(by_code)) == "cpu_bound"


@pytest.mark.parametrize(("difference", "severity"), [(0.019, "warning"), (0.021, "critical")])
def test_a_hot_worker_that_users_do_not_notice(difference: float, severity: str) -> None:
    """Requests that take twice as long are no harm that needs somebody at once, if that is too short to be noticed."""
    calm = (worker(worker_id, 600, each=difference, cpu=3.0, busy=600 * difference) for worker_id in (2, 3, 4))
    hot = worker(1, 3000, each=2 * difference, cpu=55.0, busy=6000 * difference)
    assert findings_by_code(window(60, hot, *calm))["unevenness_hurts"].severity == severity


@pytest.mark.parametrize(("load", "hurts"), [(0.5, True), (0.49, False)])
def test_the_load_from_which_unevenness_hurts(load: float, *, hurts: bool) -> None:
    """A slow worker is blamed on unevenness if its interpreter is used half of the time or more."""
    calm = (worker(worker_id, 200, each=0.05, cpu=3.0, busy=10.0) for worker_id in (2, 3, 4))
    by_code = findings_by_code(window(60, worker(1, 1000, each=0.2, cpu=60 * load, busy=200.0), *calm))
    assert ("unevenness_hurts" in by_code) == hurts


def test_harmless_unevenness_is_called_harmless() -> None:
    """33/26/23/18 % at a low interpreter load is reported as harmless, not as a warning."""
    finding = findings_by_code(the_harmless_one())["unevenness_harmless"]
    assert finding.kind is evenness.HARMLESS
    assert "Worker 1 takes 33 % of the requests, and each other worker at most 26 %" in finding.evidence


def test_a_worker_that_answers_at_once_takes_most_requests() -> None:
    """It may fail each of them, which uWSGI does not count."""
    rows = [worker(1, 900, each=0.001, cpu=0.5, busy=0.9)]
    rows += [worker(worker_id, 300, each=0.1, cpu=0.5, busy=30.0) for worker_id in (2, 3, 4)]
    assert findings_by_code(window(60, *rows))["uneven"].kind is evenness.ONE_FAST
    few = [worker(1, 900, each=0.05, cpu=0.5, busy=45.0), *rows[1:]]
    assert "uneven" not in findings_by_code(window(60, *few))


def test_unevenness_below_the_noise_is_not_reported() -> None:
    """Unevenness that chance explains is not a finding: 8x1 at 10 to 17 % with few requests."""
    shares = (17, 10, 12, 13, 12, 13, 12, 11)
    rows = [worker(worker_id, 5 * share, each=0.05, cpu=3.0, busy=10.0) for worker_id, share in enumerate(shares, 1)]
    codes = findings_by_code(window(60, *rows), Server(processes=8, threads=1))
    assert not {"uneven", "unevenness_hurts", "unevenness_harmless"} & set(codes)


def test_long_requests_of_even_workers_are_no_unevenness() -> None:
    """One of eight workers has 15 % of the requests, as chance explains, and some long ones among them: it computes
    more and is slower, and no other split of processes and threads would change that."""
    rows = [worker(worker_id, 80, each=0.68, cpu=20.0, busy=54.4) for worker_id in range(1, 5)]
    rows += [worker(worker_id, 95, each=0.85, cpu=29.0, busy=80.8) for worker_id in range(5, 8)]
    rows += [worker(8, 105, each=1.2, cpu=45.0, busy=126.0)]
    codes = findings_by_code(window(60, *rows), Server(processes=8, threads=8, cpus=8.0))
    assert not {"uneven", "unevenness_hurts"} & codes.keys()


def test_few_requests_show_only_what_chance_does_not_explain() -> None:
    """Few requests are spread unevenly by chance."""
    by_code = findings_by_code(window(30, *(worker(number, 10) for number in (1, 2, 3, 4))))
    assert "uneven" not in by_code
    by_code = findings_by_code(window(30, worker(1, 40), *(worker(number, 0) for number in (2, 3, 4))))
    assert "uneven" in by_code
    assert "unevenness_hurts" not in by_code


def test_without_process_facts_the_cost_of_unevenness_is_undecided() -> None:
    """Without interpreter load the cost of uneven shares is unknown; the finding says so."""
    rows = [worker(worker_id, n, cpu=None) for worker_id, n in enumerate((2000, 300, 300, 300), 1)]
    by_code = findings_by_code(window(60, *rows), Server(host=False))
    assert by_code["uneven"].severity == "info"


def loaded(used: float, *, wait: float | None = 0.0, full: float = 0.5) -> Window:
    """A minute of 4x8 with this fraction of the threads busy, and 20 requests per second of `used` * 1.6 s each that
    wait this many seconds."""
    each = used * 32 / 20
    rows = (worker(worker_id, 300, each=each, cpu=3.0, busy=used * 8 * 60) for worker_id in (1, 2, 3, 4))
    queues = {} if wait is None else {"app.sock": wait * 1200}
    return replace(window(60, *rows, **queues), full_seconds=full * 60)


@pytest.mark.parametrize(
    ("used", "wait", "severity"),
    [
        (0.70, 0.0, None),
        (0.70, 2.0, None),
        (0.80, 0.0, "warning"),
        (0.80, 2.0, "warning"),
        (0.95, 0.0, "warning"),
        (0.95, None, "warning"),
        (0.95, 0.05, "warning"),
        (0.95, 0.09, "warning"),
        (0.95, 0.1, "critical"),
        (0.95, 0.3, "critical"),
        (0.95, 0.5, "critical"),
    ],
)
def test_saturation(used: float, wait: float | None, severity: str | None) -> None:
    """Three quarters of the threads in use are a warning; at the limit, with requests waiting, it is critical."""
    finding = alone(loaded(used, wait=wait)).get("saturation")
    assert (finding and finding.severity) == severity


def test_a_blocked_queue() -> None:
    """If every thread is held and requests wait, but none is completed, that is critical, although no wait can be
    computed."""
    rows = (worker(worker_id, 0, each=None, cpu=0.0, busy=8 * 60.0) for worker_id in (1, 2, 3, 4))
    by_code = findings_by_code(replace(window(60, *rows, **{"app.sock": 300.0}), full_seconds=60.0))
    block = by_code["queue_wait"]
    assert [each.kind for each in (block, *block.harms)] == [limits.IN_USE, queue.NOTHING_COMPLETED]
    assert ": all threads are busy." in block.title
    assert by_code["queue_wait"].change.startswith("Run `py-spy dump --pid 101` to see what the requests in service")


def test_a_small_server_is_not_saturated_because_all_its_threads_are_busy_now_and_then() -> None:
    """One thread that is busy an eighth of the time is not saturated, and there is no finding."""
    one = replace(window(60, worker(1, 120, each=0.06, cpu=0.6, busy=7.2), **{"app.sock": 0.1}), full_seconds=7.2)
    assert findings_by_code(one, Server(processes=1, threads=1)) == {}


def test_cheaper_counts_the_reserve() -> None:
    """If two of eight workers are up and both are busy, a quarter of the threads is in use, as long as no request
    waits."""
    rows = (worker(worker_id, 300, each=0.2, cpu=3.0, busy=58.0) for worker_id in (1, 2))
    rest = (worker(worker_id, 0, cpu=0.0, busy=0.0, up=0.0) for worker_id in range(3, 9))
    window_ = replace(window(60, *rows, *rest, **{"app.sock": 1.0}), full_seconds=55.0)
    assert findings_by_code(window_, Server(processes=8, threads=1, spawned=2)) == {}


def test_all_interpreters_saturated() -> None:
    """If every interpreter is saturated, throughput cannot grow: critical, and the remedy is more processes."""
    rows = [worker(worker_id, 600, each=0.2, cpu=57.0, busy=120.0) for worker_id in (1, 2)]
    finding = findings_by_code(window(60, *rows), Server(processes=2, cpus=8.0))["interpreter_bound"]
    assert (finding.kind, finding.severity) == (load.ALL_SATURATED, "critical")
    assert dict(finding.settings) == {"processes": 4}


@pytest.mark.parametrize(
    ("limited_by", "word"), [("affinity", "cpu-affinity"), ("quota", "CPUQuota"), ("host", "Add CPUs")]
)
def test_cpu_bound_names_the_limit(limited_by: str, word: str) -> None:
    """The advice is for the smallest limit: affinity mask, quota or host, of which only the last is not uWSGI's own."""
    server = Server(cpus=2.0)
    reading = with_cpus(server, UsableCpus(2.0, limited_by, 8, 8, None))  # type: ignore[arg-type]
    rows = [worker(worker_id, 600, cpu=28.0, busy=60.0) for worker_id in (1, 2, 3, 4)]
    by_code = findings_by_code(window(60, *rows), server, host=reading.host)
    assert word in by_code["cpu_bound"].change
    assert by_code["cpu_bound"].of_host == (limited_by == "host")
    assert by_code["more_workers_than_cpus"].evidence.startswith("4 workers are busy, ")


def queued(waiting: float, full: float = 0.0, name: str = "app.sock", **changes: object) -> Window:
    """A minute with this many requests waiting on average, and the queue at its limit for this fraction of the time."""
    queues = {"queue_seconds": {name: waiting * 60}, "queue_full_seconds": {name: full * 60}}
    return replace(idle(), **queues, **changes)


def test_a_queue_that_fills() -> None:
    """A half-full queue is a warning; the advice is capacity first, then listen and somaxconn. Where requests wait, it
    is one problem with one advice."""
    filling = alone(queued(60), Server(queue=60))["queue_filling"]
    assert filling.kind is queue.QUEUE_FILLS
    assert "net.core.somaxconn" in filling.change
    block = findings_by_code(queued(60), Server(queue=60))["queue_wait"]
    assert (block.kind, [each.code for each in block.harms]) == (queue.LONG_WAIT, ["queue_filling"])
    assert "net.core.somaxconn" in block.change
    assert "requests wait 1.8 s on average" in block.evidence


@pytest.mark.parametrize(("full", "severity"), [(0.0, None), (0.01, "warning"), (0.04, "warning"), (0.06, "critical")])
def test_a_full_queue_refuses_clients(full: float, severity: str | None) -> None:
    """Refused clients are the first finding, and the queue is not reported as filling as well."""
    by_code = alone(queued(60, full), Server(queue=101))
    assert (by_code["clients_refused"].severity if severity else None) == severity
    assert ("queue_filling" in by_code) == (severity is None)
    if severity:
        assert next(iter(findings_by_code(queued(60, full), Server(queue=101)))) == "clients_refused"


def test_a_full_tcp_queue_counts_only_if_the_kernel_dropped_connections() -> None:
    """The kernel counts drops per network namespace, and the finding says so; without drops no client was refused."""
    server = Server(queue=101, socket=":8080")
    finding = findings_by_code(queued(60, 0.5, ":8080", overflows=7), server)["clients_refused"]
    assert "dropped 7 connections" in finding.evidence
    assert "clients_refused" not in findings_by_code(queued(60, 0.5, ":8080", overflows=0), server)
    mixed = replace(queued(60, 0.5, ":8080", overflows=7), refused=5)
    evidence = findings_by_code(mixed, server)["clients_refused"].evidence
    assert "dropped 5 connections, and 2 more" in evidence
    own = replace(queued(60, 0.5, ":8080", overflows=7), refused=7)
    assert "other" not in findings_by_code(own, server)["clients_refused"].evidence


@pytest.mark.parametrize(
    ("listen", "somaxconn", "words"),
    [
        (40, 4096, "raise `listen` from 40 (at most to net.core.somaxconn, which is 4096)"),
        (100, 100, "raise net.core.somaxconn"),
    ],
)
def test_which_of_the_two_limits_a_queue(listen: int, somaxconn: int, words: str) -> None:
    """The kernel caps `listen` at net.core.somaxconn: the smaller one is the limit to raise."""
    server = Server(queue=60)
    reading = server.read(AT)
    setup = Setup(Options(), somaxconn, "threads", None, None)
    backlogs = {"app.sock": Backlog(60, listen, None)}
    host = replace(reading.host, setup=setup, backlogs=backlogs)
    assert words in findings_by_code(queued(60, 0.5), server, host=host)["clients_refused"].change


def with_worker(worker_id: int, base: Window | None = None, **changes: object) -> Window:
    """A quiet window with one worker changed."""
    base = base or idle()
    rows = tuple(msgspec.structs.replace(row, **changes) if row.worker_id == worker_id else row for row in base.workers)
    return replace(base, workers=rows, respawns=sum(row.respawns for row in rows))


@pytest.mark.parametrize(("harakiris", "severity"), [(1, "warning"), (2, "warning"), (30, "critical")])
def test_harakiri(harakiris: int, severity: str) -> None:
    """One harakiri is a warning; losing a hundredth of the requests to harakiri is critical. Its respawns are not
    reported again."""
    by_code = findings_by_code(replace(with_worker(1, respawns=harakiris), harakiris=harakiris))
    assert by_code["harakiri"].severity == severity
    assert set(by_code) == {"harakiri"}
    assert "one timer" in by_code["harakiri"].meaning
    prefork = findings_by_code(replace(with_worker(1, respawns=1), harakiris=1), Server(threads=1))
    assert "one timer" not in prefork["harakiri"].meaning


@pytest.mark.parametrize(("lost", "severity"), [(1, "warning"), (3, "warning"), (40, "critical")])
def test_requests_lost_with_their_worker(lost: int, severity: str) -> None:
    """The requests in service of a worker that ends are lost: a few are a warning, a hundredth of all is critical."""
    finding = findings_by_code(with_worker(2, respawns=1, lost=lost))["requests_lost"]
    assert finding.severity == severity
    assert finding.title == "Workers ended while they served requests."
    assert finding.evidence.startswith(f"Worker 2 lost at least {lost} request")


def test_respawns() -> None:
    """Repeated respawns with few requests are a warning in one worker and critical in half of them; recycling without
    loss, and a reload, are good to know."""
    one = with_worker(3, respawns=3, requests=30)
    assert findings_by_code(one)["respawn_loop"].severity == "warning"
    assert findings_by_code(one)["respawn_loop"].title == "Worker 3 keeps restarting."
    half = with_worker(1, one, respawns=3, requests=30)
    assert findings_by_code(half)["respawn_loop"].severity == "critical"
    recycled = findings_by_code(with_worker(3, respawns=3, requests=450))
    assert {code: finding.severity for code, finding in recycled.items()} == {"workers_respawned": "info"}
    assert recycled["workers_respawned"].title == "Workers were restarted."
    assert recycled["workers_respawned"].evidence.startswith("Worker 3 ended 3 times in the last ")
    host = with_setup(Server(), complete=True)
    ended = findings_by_code(with_worker(3, respawns=1), host=host)["workers_ended"]
    assert (ended.severity, ended.title) == ("warning", "Workers ended unexpectedly.")
    assert ended.evidence.startswith("Worker 3 ended once in the last ")
    everywhere = replace(
        idle(), workers=tuple(msgspec.structs.replace(row, respawns=1) for row in idle().workers), reloads=1
    )
    reloaded = findings_by_code(everywhere)
    assert {code: finding.severity for code, finding in reloaded.items()} == {"reloaded": "info"}


def test_a_worker_that_lives_for_seconds_is_recycled_too_early() -> None:
    """With `max-requests` of 150 at 19 requests per second there is no loop, and the advice is to raise it."""
    rows = tuple(msgspec.structs.replace(row, respawns=3, requests=450) for row in idle().workers)
    finding = findings_by_code(replace(idle(), workers=rows, respawns=12))["workers_respawned"]
    assert finding.severity == "info"
    assert "on average over all workers, a worker lives for 20 s" in finding.evidence
    assert finding.change.startswith("Raise `max-requests`")


def recycled(respawns: int, requests: int, up: float, **queues: float) -> Window:
    """A minute of four workers, each with this many respawns and requests, and up for this many seconds."""
    rows = (worker(number, requests, busy=6.0, up=up, respawns=respawns) for number in range(1, 5))
    return window(60, *rows, **queues)


@pytest.mark.parametrize(
    ("most", "respawns", "requests", "up", "queue", "severity"),
    [
        (8, 12, 100, 58.0, 0.0, "warning"),  # a new worker for every eight requests
        (200, 6, 1250, 58.0, 0.0, None),  # the cost is negligible
        (200, 6, 1250, 48.0, 0.0, "warning"),  # it costs a fifth of the capacity
        (5, 30, 150, 30.0, 5400.0, "critical"),  # and requests wait for it
        (5000, 6, 1250, 48.0, 0.0, None),  # other reasons end them
    ],
)
def test_recycling_that_costs(
    most: int, respawns: int, requests: int, up: float, queue: float, severity: str | None
) -> None:
    """A `max-requests` that is too low is reported as the cause, before its consequences."""
    host = with_setup(Server(), max_requests=most, min_worker_lifetime=1, complete=True)
    by_code = findings_by_code(recycled(respawns, requests, up, **{"app.sock": queue}), host=host)
    finding = by_code.get("respawn_loop")
    if severity is None:
        assert finding is None or "max-requests" not in finding.title
        return
    assert finding
    assert (finding.kind, finding.severity) == (LIMIT_TOO_LOW, severity)
    ((option, enough),) = finding.settings
    assert option == "max-requests"
    assert enough >= 60 * requests  # those of an hour
    assert next(iter(by_code)) == "respawn_loop"
    assert "workers_missing" not in by_code
    assert not any("Raise `processes`" in each.change for each in by_code.values() if up < 50)


@pytest.mark.parametrize(("most", "named"), [(8, True), (200, False)])
def test_recycling_where_options_may_be_hidden(most: int, named: bool) -> None:
    """Cheaper mode may be why workers are down; a worker that serves eight requests is recycled too early in any
    case."""
    host = with_setup(Server(), max_requests=most, complete=False)
    by_code = findings_by_code(recycled(respawns=12, requests=12 * most, up=40.0), host=host)
    assert ("respawn_loop" in by_code) == named
    if named:
        assert "workers are down for" not in by_code["respawn_loop"].evidence


@pytest.mark.parametrize(("respawns", "severity"), [(1, "warning"), (3, "warning"), (40, "critical")])
def test_ends_that_no_option_explains(respawns: int, severity: str) -> None:
    """Each end most likely lost a request, even if it was too short for a sample: many are one in a hundred."""
    host = with_setup(Server(), complete=True)
    finding = findings_by_code(with_worker(3, respawns=respawns, requests=50 * respawns), host=host)["workers_ended"]
    assert finding.severity == severity


def test_reloads_of_workers_are_not_reported_as_ends() -> None:
    """`touch-workers-reload` ends each worker equally often, however often it is used."""
    host = with_setup(Server(), complete=True)
    rows = tuple(msgspec.structs.replace(row, respawns=2) for row in idle().workers)
    assert "workers_ended" not in findings_by_code(replace(idle(), workers=rows, respawns=8), host=host)


def test_workers_that_cheaper_mode_spawned_late_were_not_down() -> None:
    """The advice is to add capacity; if only the workers' absence explains the wait, it is to find its reason."""
    rows = window(
        60,
        *(worker(number, 500, busy=18.0, up=20.0) for number in range(1, 5)),
        waits={"sleep": 1.2},
        **{"app.sock": 1200.0},
    )
    rows = replace(rows, full_seconds=18.0)
    for options, words in (
        ({"cheaper": 1}, "Raise `threads`"),
        ({}, "Check uWSGI's log for the reason why workers are down 67 %"),
    ):
        host = with_setup(Server(), complete=True, **options)
        assert findings_by_code(rows, host=host)["queue_wait"].change.startswith(words)


def test_a_worker_that_dies_at_its_start_loses_nothing() -> None:
    """If the import of one of four workers keeps failing, that is a loop, and no more than a warning."""
    host = with_setup(Server(), complete=True)
    finding = findings_by_code(with_worker(3, respawns=24, requests=6), host=host)["respawn_loop"]
    assert finding.severity == "warning"


def test_an_application_that_is_not_loaded() -> None:
    """If the configuration names an application and uWSGI lists none, every request gets status 500."""
    server = Server()
    reading = server.read(AT)
    assert isinstance(reading.snapshot, Snapshot)
    names = with_setup(server, names_application=True)
    first, *others = reading.snapshot.workers
    loaded = msgspec.structs.replace(first, apps=(App(),))

    def judge(*workers: Worker, host: HostFacts = names) -> Finding | None:
        snapshot = msgspec.structs.replace(reading.snapshot, workers=workers)
        return findings_by_code(idle(), server, snapshot=snapshot, host=host).get("no_application")

    everywhere = judge(first, *others)
    assert everywhere
    assert (everywhere.kind, everywhere.severity) == (NO_APPLICATION, "critical")
    some = judge(loaded, *others)
    assert some
    assert (some.severity, some.title) == ("warning", "Workers 2, 3 and 4 have not loaded their application.")
    assert judge(*[msgspec.structs.replace(each, apps=(App(),)) for each in (first, *others)]) is None
    assert judge(first, *others, host=with_setup(server)) is None


def test_threads_of_a_worker_that_is_gone_count_in_proportion() -> None:
    """One of two workers is gone at the end of the window: a mean is one of the threads that there were on average."""
    server = Server(processes=2, threads=1)
    server[2].pid, server[2].state = None, "gone"
    rows = window(60, worker(1, 500, busy=59.0, up=60.0), worker(2, 400, busy=44.0, up=45.0))
    finding = findings_by_code(rows, server)["saturation"]
    assert "1.7 of 2 threads are busy (86 %), and 1.8 are up" in finding.evidence
    ended_just_now = window(60, worker(1, 500, busy=59.0), worker(2, 400, busy=59.0))
    assert "up" not in findings_by_code(ended_just_now, server)["saturation"].evidence
    serves_its_last = window(60, worker(1, 500, busy=59.0), worker(2, 400, busy=55.0, up=5.0))
    assert "and 1.9 are up" in findings_by_code(serves_its_last, server)["saturation"].evidence


def test_a_full_machine_beside_a_server_that_needs_little() -> None:
    """The server has no finding, and the kernel gives it a part of the CPUs, as of the four here."""
    rows = replace(idle(), cpu=window(60, cpu=(0.03, 0.0, 1.97)).cpu)
    reading = Server().read(AT)
    figures = compute_figures(rows, describe_server(reading))
    findings = collect_findings(figures)
    assert worst_status(findings) == "ok"
    assert verdict_sentence(figures.headroom, findings) == "Headroom 6.7x: CPUs run out first."


def test_stuck_requests() -> None:
    """Requests older than the limit are stuck; in a killed worker they are lost, not stuck."""
    server = Server()
    server[2].request_starts = (int(EPOCH + AT) - 45, int(EPOCH + AT) - 5)
    finding = findings_by_code(idle(), server)["request_stuck"]
    assert (finding.kind, finding.worker_id) == (STUCK, 2)
    assert finding.evidence.startswith("1 request is stuck in worker 2, in service for 45 s.")
    server.kill(2)
    assert "request_stuck" not in findings_by_code(idle(), server)
    assert "Worker 2 is down" in findings_by_code(idle(), server)["workers_missing"].title


def test_the_age_of_a_stuck_request_is_a_setting() -> None:
    """Long polls on threads are no finding until they last longer than they are meant to."""
    server = Server()
    server[2].request_starts = (int(EPOCH + AT) - 290,)
    reading = server.read(AT)
    for seconds, found in ((300.0, False), (290.0, True)):
        figures = compute_figures(idle(), describe_server(reading), stuck_seconds=seconds)
        titles = {finding.code: finding.title for finding in collect_findings(figures)}
        assert ("4 min 50 s" in titles.get("request_stuck", "")) == found


def test_the_workers_to_restart_are_those_that_are_stuck() -> None:
    """`pids --stuck` knows only the usual age, so with another one their numbers are in the command."""
    server = Server(threads=1)
    for number in (1, 3):
        server[number].request_starts = (int(EPOCH + AT) - 40,)
    reading = describe_server(server.read(AT))
    for seconds, which in ((30.0, "--stuck"), (10.0, "--worker 1,3")):
        findings = collect_findings(compute_figures(idle(), reading, stuck_seconds=seconds))
        change = next(finding.change for finding in findings if finding.code == "request_stuck")
        assert f" {which}` prints" in change


def streams(streams: int, cores: int = 25, requests: int = 500, queued: float = 0.0) -> dict[str, Finding]:
    """Findings about four gevent workers, of which the first has so many event streams, a minute old; the others have
    none. cores: of each worker, of which all but those of the streams are free."""
    server = Server(threads=cores)
    server[1].request_starts = (int(EPOCH + AT) - 60,) * streams
    host = replace(server.read(AT).host, setup=Setup(Options(gevent=cores), 4096, "async", None, False))
    rows = (worker(number, requests, busy=60.0 * (streams if number == 1 else 0)) for number in range(1, 5))
    return findings_by_code(window(60, *rows, **{"app.sock": 60 * queued}), server, host=host)


def test_event_streams_on_free_async_cores_are_no_harm() -> None:
    """A core that waits takes nothing from others, until hardly any is free. `harakiri` would end all requests of the
    worker, so it is not advised; where it is not known whether cores are threads, neither."""
    assert "request_stuck" not in streams(20)
    assert "request_stuck" not in streams(21, cores=6)
    finding = streams(23, cores=6)["request_stuck"]
    assert finding.severity == "warning"
    assert finding.kind is STUCK
    assert finding.evidence.startswith("23 requests are stuck in worker 1")
    assert streams(23, cores=6, queued=50.0)["request_stuck"].severity == "critical"
    assert "harakiri" not in finding.change
    assert "raise `gevent`" in finding.change
    standing = streams(20, requests=0, queued=5.0)["request_stuck"]
    assert standing.severity == "warning"
    assert "does not yield" in standing.meaning
    assert "does not yield" not in finding.meaning
    assert "raise `gevent`" not in standing.change
    server = Server()
    server[1].request_starts = (int(EPOCH + AT) - 60,)
    assert "harakiri" not in findings_by_code(idle(), server)["request_stuck"].change
    threads = replace(server.read(AT).host, setup=Setup(Options(), 4096, "threads", None, False))
    assert "`harakiri` as the last resort" in findings_by_code(idle(), server, host=threads)["request_stuck"].change


def test_several_workers_are_named_in_the_plural() -> None:
    """Two workers that are missing, or keep restarting, are `Workers 1 and 2`; of 4,096 workers a sentence lists
    eight."""
    server = Server()
    server.kill(1)
    server.kill(2)
    title = findings_by_code(idle(), server)["workers_missing"].title
    assert title == "Workers 1 and 2 are down or starting."
    looping = tuple(msgspec.structs.replace(slot, respawns=9, requests=9) for slot in idle().workers[:2])
    by_code = findings_by_code(replace(idle(), respawns=18, workers=(*looping, *idle().workers[2:])))
    assert by_code["respawn_loop"].title == "Workers 1 and 2 keep restarting."
    looping = tuple(msgspec.structs.replace(slot, respawns=9, requests=9) for slot in idle(workers=4096).workers)
    by_code = findings_by_code(replace(idle(), respawns=9 * 4096, workers=looping))
    assert by_code["respawn_loop"].title.startswith("Workers 1, 2, 3, 4, 5, 6, 7, 8 and 4,088 more keep restarting")


@pytest.mark.parametrize(
    ("saturated", "kind", "worker_id"),
    [([1], load.SOME_SATURATED, 1), ([1, 2], load.SOME_SATURATED, None), ([1, 2, 3], load.ALL_SATURATED, None)],
)
def test_saturated_interpreters_are_named(saturated: list[int], kind: Kind, worker_id: int | None) -> None:
    """A single interpreter is named by its worker; of several, the evidence names the workers."""
    rows = [
        worker(worker_id, 500, each=0.1, cpu=59.0 if worker_id in saturated else 1.0, busy=10.0)
        for worker_id in (1, 2, 3)
    ]
    finding = findings_by_code(window(60, *rows), Server(processes=3, cpus=8.0))["interpreter_bound"]
    assert (finding.kind, finding.worker_id) == (kind, worker_id)
    assert ("of worker 1 is saturated" in finding.title) == (saturated == [1])
    assert ("workers 1 and 2" in finding.evidence) == (saturated == [1, 2])


@pytest.mark.parametrize(
    ("raised", "severity"), [(1, "info"), (27, "info"), (28, "warning"), (1040, "warning"), (1050, "critical")]
)
def test_exceptions(raised: int, severity: str) -> None:
    """A few exceptions are good to know; more than one per hundred requests, beyond chance, is a warning: of 2,000.
    If most requests fail, hardly anybody is served."""
    finding = findings_by_code(replace(idle(), exceptions=raised))["exceptions"]
    assert (finding.kind, finding.severity) == (MOST_RAISE if severity == "critical" else RAISE, severity)
    assert (finding.change == "") == (severity == "info")
    assert "for each client that disconnects" in finding.meaning, "write errors are not known"


def test_growing_memory() -> None:
    """Growth by a tenth and 16 MB within a window is a warning, unless workers were replaced in it."""
    grown = msgspec.structs.replace(
        worker(1, 500, each=0.01, cpu=0.5, busy=5.0), resident_bytes=200_000_000, resident_growth=40_000_000
    )
    window_ = replace(idle(), workers=(grown, *idle().workers[1:]))
    assert "40 MB more" in findings_by_code(window_)["memory_growing"].evidence
    bounded = findings_by_code(window_, host=with_setup(Server(), reload_on_rss=400))["memory_growing"].change
    assert "a worker that reaches 400 MB" in bounded
    assert "400" not in findings_by_code(window_)["memory_growing"].change
    assert "memory_growing" not in findings_by_code(replace(window_, respawns=1))
    server = Server()
    for low, is_growing in ((200_000_000, True), (190_000_000, True), (165_000_000, False)):
        server[1].low = low  # what it keeps between requests
        assert ("memory_growing" in findings_by_code(window_, server)) == is_growing
    server = Server(spawned=3)
    server.respawn(4, AT - 20)
    rows = list(window_.workers)
    for up, is_growing in ((20.0, True), (58.0, False)):  # cheaper mode started it, or it replaces one that ended
        rows[3] = msgspec.structs.replace(rows[3], respawns=1, up_seconds=up, resident_growth=None)
        started = replace(window_, respawns=1, workers=tuple(rows))
        assert ("memory_growing" in findings_by_code(started, server)) == is_growing
    little = msgspec.structs.replace(grown, resident_growth=15_000_000)
    assert "memory_growing" not in findings_by_code(replace(window_, workers=(little, *window_.workers[1:])))


def test_workers_pinned_to_one_cpu() -> None:
    """Two workers with the same single CPU in their masks share that CPU."""
    server = Server()
    server[1].affinity = server[3].affinity = (2,)
    server[2].affinity = (1,)
    finding = findings_by_code(idle(), server)["workers_share_one_cpu"]
    assert (finding.severity, finding.title[:18]) == ("info", "2 workers are each")
    busy = window(60, *(worker(worker_id, 500, cpu=30.0, busy=30.0) for worker_id in (1, 2, 3, 4)))
    assert findings_by_code(busy, server)["workers_share_one_cpu"].severity == "warning"


def test_cheaper_that_never_scales() -> None:
    """Workers in reserve, while every thread is in use and requests wait, are reported if none was spawned."""
    full = replace(queued(20), full_seconds=30.0)
    assert "cheaper_does_not_scale" not in findings_by_code(replace(queued(0.1), full_seconds=30.0), Server(spawned=2))
    server = Server(spawned=2)
    assert "2 workers in reserve" in alone(full, server)["cheaper_does_not_scale"].evidence
    assert "cheaper_does_not_scale" not in findings_by_code(replace(full, respawns=1), server)
    for options, words in (
        ({"cheaper_overload": 9}, "If 9 checks in a row (`cheaper-overload`)"),
        ({"cheaper_overload": 30, "cheaper_algo": "busyness"}, "Every 30 seconds (`cheaper-overload`)"),
    ):
        finding = alone(full, server, host=with_setup(server, **options))["cheaper_does_not_scale"]  # type: ignore[arg-type]
        assert words in finding.meaning


@pytest.mark.parametrize(
    ("algorithm", "socket", "kind"),
    [
        ("backlog", "app.sock", limits.CHEAPER_BLIND),
        ("backlog2", "@app", limits.CHEAPER_BLIND),
        ("backlog", ":8080", limits.CHEAPER),
        ("manual", "app.sock", limits.CHEAPER_MANUAL),
        ("spare", "app.sock", limits.CHEAPER),
    ],
)
def test_algorithms_of_cheaper_mode(algorithm: str, socket: str, kind: Kind) -> None:
    """Each spawns workers for a reason of its own, and some never do."""
    server = Server(spawned=2, socket=socket)
    full, host = replace(queued(20, name=socket), full_seconds=30.0), with_setup(server, cheaper_algo=algorithm)  # type: ignore[arg-type]
    assert alone(full, server, host=host)["cheaper_does_not_scale"].kind is kind


@pytest.mark.parametrize(("overload", "can_be_lower"), [(1, False), (2, True)])
def test_a_cheaper_overload_that_cannot_be_lower(overload: int, can_be_lower: bool) -> None:
    """What is at its least is not to be lowered."""
    server = Server(spawned=2)
    full, host = replace(queued(20), full_seconds=30.0), with_setup(server, cheaper_overload=overload)
    change = alone(full, server, host=host)["cheaper_does_not_scale"].change
    assert ("lower `cheaper-overload`" in change) == can_be_lower


def test_options_that_hide_figures_or_cost() -> None:
    """A document larger than a UNIX socket's buffer, and thunder-lock are good to know."""
    assert "large_document" in findings_by_code(idle(), Server(cores=False), document_bytes=300_000)
    reading = Server().read(AT)
    assert isinstance(reading.snapshot, Snapshot)
    locked = msgspec.structs.replace(reading.snapshot, locks={"thunder": 7})
    assert "thunder_lock" in findings_by_code(idle(), snapshot=locked)


def test_the_worst_comes_first() -> None:
    """Critical before warning before info."""
    window_ = replace(the_example(), harakiris=1, exceptions=1)
    severities = [finding.severity for finding in findings_by_code(window_).values()]
    assert severities == sorted(severities, key=["critical", "warning", "info"].index)
    assert severities[0] == "critical"


def beside(own: float, idle: float, others: float | None, waits: dict[str, float] | None = None) -> dict[str, Finding]:
    """Findings about a server that uses this many CPUs, with this many idle and in use by others."""
    rows = (worker(worker_id, 500, each=0.01, cpu=15 * own, busy=5.0) for worker_id in (1, 2, 3, 4))
    server = Server(cpus=own + idle + (others or 0.0))
    return findings_by_code(window(60.0, *rows, cpu=(own, idle, others), waits=waits), server)


@pytest.mark.parametrize(
    ("seconds", "reloads", "severity"),
    [(60.0, 1, "info"), (60.0, 2, "info"), (12.0, 3, "warning"), (180.0, 3, "warning"), (181.0, 3, "info")],
)
def test_reloads_again_and_again(seconds: float, reloads: int, severity: str) -> None:
    """A deploy now and then is no harm; a reload each minute or more often is not meant."""
    row = window(seconds, *(worker(number, 500, each=0.01, busy=5.0, up=seconds) for number in (1, 2, 3, 4)))
    finding = findings_by_code(replace(row, reloads=reloads))["reloaded"]
    assert finding.severity == severity
    assert ("Find out what reloads uWSGI" in finding.change) == (severity == "warning")


@pytest.mark.parametrize(("each", "severity"), [(0.025, "warning"), (0.04, "critical")])
def test_a_wait_for_a_cpu_that_users_do_not_feel_is_no_page(each: float, severity: str) -> None:
    """Requests wait for two thirds of their time: 17 ms of 25 ms, or 27 ms of 40 ms."""
    busy = 2000 * each
    rows = (worker(number, 500, each=each, cpu=1.5, busy=busy / 4) for number in (1, 2, 3, 4))
    waits = {"cpu": busy / 180, "cpu_wait": busy / 90}
    row = window(60.0, *rows, cpu=(0.1, 0.0, 1.9), waits=waits)
    finding = findings_by_code(row, Server(cpus=2.0))["cpu_bound"]
    assert (finding.kind, finding.severity) == (load.OTHERS_USE_ALL, severity)


def test_others_that_leave_nothing_are_a_warning() -> None:
    """The finding has the CPUs in use by others, by the workers, and in total."""
    finding = beside(0.1, 0.0, 1.9)["cpu_used_by_others"]
    assert (finding.kind, finding.of_host) == (load.USED_BY_OTHERS, True)
    severities = {
        waiting: beside(0.1, 0.0, 1.9, waits={"sleep": 0.3 - waiting, "cpu": 0.1, "cpu_wait": waiting})[
            "cpu_used_by_others"
        ].severity
        for waiting in (0.03, 0.05)
    }
    assert severities == {0.03: "info", 0.05: "warning"}
    for figure in ("2 CPUs", "0.10", "1.90", "0.00", "1.0x"):
        assert figure in finding.evidence


@pytest.mark.parametrize(
    ("own", "idle", "others", "severity"),
    [
        (0.5, 0.2, 1.3, "warning"),
        (0.5, 0.3, 1.2, "info"),
        (0.3, 0.5, 1.2, "info"),
        (0.2, 0.5, 1.3, None),  # headroom 3.5
        (1.2, 0.1, 0.7, None),  # the server itself uses more
        (0.8, 1.2, 2.0, "info"),
        (0.8, 1.2, 0.4, None),
        (0.1, 0.0, None, None),
    ],
)
def test_when_others_matter(own: float, idle: float, others: float | None, severity: str | None) -> None:
    """Other programs are reported if they use the larger part and CPU headroom is low because of it."""
    finding = beside(own, idle, others).get("cpu_used_by_others")
    assert (finding and finding.severity) == severity


@pytest.mark.parametrize(("own", "idle", "others", "severity"), [(0.5, 2.0, 1.5, None), (0.6, 1.9, 1.5, "info")])
def test_half_of_the_cpus_idle_is_enough(own: float, idle: float, others: float, severity: str | None) -> None:
    """Others that grow with the load take headroom, but are no finding while half of the CPUs are idle."""
    rows = (worker(worker_id, 500, each=0.01, cpu=15 * own, busy=5.0) for worker_id in (1, 2, 3, 4))
    of = window(60.0, *rows, cpu=(own, idle, others))
    figures = compute_figures(of, describe_server(Server().read(AT)), others_follow=True)
    finding = next((each for each in collect_findings(figures) if each.code == "cpu_used_by_others"), None)
    assert (finding and finding.severity) == severity


def with_setup(server: Server, kind: str | None = "threads", **options: int) -> HostFacts:
    setup = Setup(Options(**options), 4096, kind, None, None)  # type: ignore[arg-type]
    return replace(server.read(AT).host, setup=setup)


def test_requests_that_outlive_max_requests() -> None:
    """A worker that reaches `max-requests` ends its last requests within `worker-reload-mercy`, or they are lost. It is
    no crash, unless its processes ended earlier than that."""
    server, mercy = Server(), {"max_requests": 500, "worker_reload_mercy": 3}
    for served, is_recycled in ((500, True), (120, False)):
        server[2].requests, server[2].before_spawn, server[2].respawns = 4 * served + 40, 4 * served, 5
        host = replace(server.read(AT).host, setup=with_setup(server, **mercy).setup)
        finding = findings_by_code(with_worker(2, respawns=1, lost=2), server, host=host)["requests_lost"]
        assert ("`worker-reload-mercy`" in finding.public.act) == is_recycled
        assert ("`max-requests`" in finding.meaning) == is_recycled
        assert ("crashed" in finding.meaning) != is_recycled


def test_known_options_are_in_the_texts() -> None:
    """`harakiri` comes with its value if that is known, and without it if not."""
    killed = replace(with_worker(1, respawns=1), harakiris=1)
    host = with_setup(Server(), harakiri=5)
    assert "`harakiri` (5 s)." in findings_by_code(killed, host=host)["harakiri"].title
    assert "`harakiri`." in findings_by_code(killed, host=host)["harakiri"].public.title
    assert "`harakiri`." in findings_by_code(killed)["harakiri"].title


def test_async_cores_are_not_called_threads() -> None:
    """With gevent and the like there are no threads to raise, and the texts say async cores."""
    server = Server(processes=2, threads=50)
    rows = (worker(worker_id, 1000, each=2.9, cpu=45.0, busy=48.0 * 60) for worker_id in (1, 2))
    full = replace(window(60, *rows, **{"app.sock": 2400.0}), full_seconds=30.0)
    finding = findings_by_code(full, server, host=with_setup(server, "async"))["saturation"]
    assert "96.0 of 100 async cores" in finding.evidence
    assert dict(finding.settings) == {"processes": 5}
    assert "thread" not in finding.title + finding.evidence + finding.meaning + finding.change


QUOTA = Quota("/system.slice/uwsgi.service", 0.5, 8)


def throttled(part: float, periods: int = 300, **waits: float) -> Window:
    """A minute of little use, in which a quota stopped the workers in this part of its periods."""
    rows = [worker(worker_id, 60, each=0.24, cpu=3.6, busy=14.4) for worker_id in (1, 2)]
    return replace(
        window(60, *rows, waits=waits or None),  # type: ignore[arg-type]
        quota_periods=periods,
        throttled_periods=round(part * periods),
        throttled_seconds=part * periods * 0.05,
    )


def under_quota(window_: Window, quota: Quota = QUOTA) -> dict[str, Finding]:
    server = Server(processes=2, threads=2)
    cpus = UsableCpus(quota.cpus, "quota", 8, 8, quota.cpus)
    return findings_by_code(window_, host=replace(with_cpus(server, cpus).host, throttling=Throttling(quota)))


@pytest.mark.parametrize(
    ("window_", "severity"),
    [
        (throttled(0.43, cpu=0.12, cpu_wait=0.36), "critical"),
        (throttled(0.43, cpu=0.12, cpu_wait=0.06, sleep=0.1), "warning"),
        (throttled(0.43, cpu=0.12, cpu_wait=0.05, interpreter_lock=0.2, sleep=0.1), "warning"),
        (throttled(0.43, cpu=0.12, cpu_wait=0.02, sleep=0.3), None),  # nobody feels it
        (throttled(0.09, cpu=0.12, cpu_wait=0.36), None),  # it is something else that they wait for
        (throttled(0.43, periods=9, cpu=0.12, cpu_wait=0.36), None),
        (throttled(0.24), None),
        (throttled(0.26), "warning"),  # waits are not known
    ],
)
def test_a_quota_that_stops_the_workers(window_: Window, severity: str | None) -> None:
    """It is the cause if requests wait for a CPU for a fifth of their time, though the mean use is low."""
    found = under_quota(window_).get("cpu_throttled")
    assert (found.severity if found else None) == severity


def test_stops_that_are_a_small_part_of_the_wait() -> None:
    """Requests that wait for a CPU for a minute, of which a quota is the reason for half a second, wait for others."""
    waits = {"cpu": 0.1, "cpu_wait": 1.0}
    few = replace(throttled(0.2, **waits), throttled_seconds=0.5)
    assert "cpu_throttled" not in under_quota(few)
    assert "cpu_wait" in under_quota(few)
    assert "cpu_throttled" in under_quota(replace(few, throttled_seconds=2.5))


def test_a_quota_is_named_with_what_to_set() -> None:
    """Which cgroup, from what to what: workers of one interpreter each never use more CPUs than there are workers."""
    finding = under_quota(throttled(0.43, cpu=0.12, cpu_wait=0.36))["cpu_throttled"]
    assert "43 % of its periods (129 of 300)" in finding.evidence
    assert "of the cgroup /system.slice/uwsgi.service from 0.5 CPUs to 2 CPUs" in finding.change
    assert "uwsgi.service" not in "".join(finding.public)
    container = under_quota(throttled(0.43, cpu=0.12, cpu_wait=0.36), Quota("/", 3.0, 8))["cpu_throttled"]
    assert "from 3 CPUs." in container.change


@pytest.mark.parametrize(
    ("waits", "found"),
    [
        ({"cpu": 0.1, "cpu_wait": 0.3}, True),
        ({"cpu": 0.1, "cpu_wait": 0.1, "sleep": 0.3}, False),  # they mostly sleep
        ({"cpu": 0.1, "unknown": 0.3}, False),
    ],
)
def test_requests_that_wait_for_a_cpu(waits: dict[str, float], found: bool) -> None:
    """Measured, that is a cause, also if half of the CPUs are idle or that is not known. Threads are not advised."""
    rows = [worker(number, 60, each=0.24, cpu=3.0, busy=14.4) for number in (1, 2)]
    for cpu in ((0.1, 1.0, 0.9), None):
        window_ = window(60, *rows, cpu=cpu, waits=waits)  # type: ignore[arg-type]
        server = Server(processes=2, threads=2, cpus=2.0)
        finding = findings_by_code(window_, server).get("cpu_wait")
        assert (finding is not None) == found
        assert finding is None or not finding.of_host  # others are idle, so that its own CPUs may be too few
    queued = window(60, *rows, waits=waits, **{"app.sock": 60.0})  # type: ignore[arg-type]
    head = next(iter(findings_by_code(queued, Server(processes=2, threads=2, cpus=2.0)).values()))
    assert head.title.endswith(": requests in service wait for a CPU.") == found


def test_a_short_wait_for_a_cpu_is_not_felt() -> None:
    """Requests of a millisecond that wait another one beside a busy program are as good as before."""
    rows = [worker(number, 600, each=0.004, cpu=0.6, busy=2.4) for number in (1, 2)]
    by_code = findings_by_code(window(60, *rows, waits={"cpu": 0.02, "cpu_wait": 0.06}), Server(processes=2))
    assert "cpu_wait" not in by_code
