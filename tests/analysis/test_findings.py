"""Findings about uneven workers, threads in use, listen queues, stuck requests and what else a window shows."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import (
    AT,
    by_code,
    describe,
    figures_of,
    findings_by_code,
    idle,
    judge,
    setup,
)
from tests.support.simulated_server import EPOCH, Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import (
    RULES,
    Finding,
    collect_findings,
)
from uwsgi_headroom.analysis.verdict import verdict_sentence, worst_status
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import Backlog


def alone(of: Window, server: Server | None = None, **known: object) -> dict[str, Finding]:
    """The findings about a window before harms are joined to their causes."""
    figures = figures_of(of, describe(server, **known))
    return by_code(finding for rule in RULES for finding in rule(figures))


def four(first: tuple[float, ...], *others: tuple[float, ...]) -> Window:
    """A minute of workers with these requests, seconds of each, CPU seconds and busy seconds; those of the last one are
    those of further workers up to four."""
    rows = (first, *others, *[others[-1]] * (3 - len(others)))
    return window(
        60,
        *(worker(n, int(count), each=each, cpu=cpu, busy=busy) for n, (count, each, cpu, busy) in enumerate(rows, 1)),
    )


def queued(waiting: float, full: float = 0.0, name: str = "app.sock", **changes: object) -> Window:
    """A minute with this many requests waiting on average, and the queue at its limit for this fraction of the time."""
    queues = {"queue_seconds": {name: waiting * 60}, "queue_full_seconds": {name: full * 60}}
    return replace(idle(), **queues, **changes)


@pytest.mark.parametrize("full", [0.0, 30.0])
def test_queues_with_equal_figures_are_told_apart(full):
    """Each is named where its figures are, so that no sentence stands twice."""
    backlogs = dict.fromkeys(("a.sock", "b.sock"), Backlog(60, 100, None))
    queues = {"queue_seconds": dict.fromkeys(backlogs, 3600.0), "queue_full_seconds": dict.fromkeys(backlogs, full)}
    found = collect_findings(figures_of(replace(idle(), **queues), describe(queues=backlogs)))
    texts = [each.evidence for finding in found for each in (finding, *finding.harms)]
    assert [sum(f"queue of {name}" in text for text in texts) for name in backlogs] == [1, 1]
    assert len(set(texts)) == len(texts)


def test_a_full_machine_beside_a_server_that_needs_little():
    """The server has no finding, and the kernel gives it a part of the CPUs, as of the four here."""
    of = replace(idle(), cpu=window(60, cpu=(0.03, 0.0, 1.97)).cpu)
    findings = list(judge(of).values())
    assert worst_status(findings) == "ok"
    sentence = "Headroom 6.4x until requests wait; 6.7x until CPUs run out."
    assert verdict_sentence(figures_of(of).headroom, findings) == sentence


def stuck(worker_id: int, *ages: int, **server: object) -> Server:
    """A server in which requests of a worker have been in service for so many seconds."""
    made = Server(**server)
    made[worker_id].request_starts = tuple(int(EPOCH + AT) - age for age in ages)
    return made


@pytest.mark.parametrize(
    ("ages", "seconds", "which"),
    [((290, 0), 300.0, None), ((290, 0), 290.0, "1"), ((40, 40), 30.0, ""), ((40, 40), 10.0, "1,3")],
)
def test_the_age_of_a_stuck_request_is_a_setting(ages, seconds, which):
    """Long polls on threads are no finding until they last longer than they are meant to. `pids --stuck` knows only the
    usual age, so with another one the numbers of the workers are in the command."""
    server = stuck(1, ages[0], threads=1)
    server[3].request_starts = (int(EPOCH + AT) - ages[1],)
    finding = judge(idle(), server, stuck_seconds=seconds).get("request_stuck")
    assert (finding is None) == (which is None)
    assert not finding or which in finding.change


def streams(streams: int, cores: int = 25, requests: int = 500, queued: float = 0.0) -> dict[str, Finding]:
    """Findings about four gevent workers, of which the first has so many event streams, a minute old; the others have
    none. cores: of each worker, of which all but those of the streams are free."""
    rows = (worker(number, requests, busy=60.0 * (streams if number == 1 else 0)) for number in range(1, 5))
    of = window(60, *rows, app=60 * queued)
    return findings_by_code(of, stuck(1, *[60] * streams, threads=cores), setup=setup("async", gevent=cores))
