"""Whatever the figures are: no finding fails, texts read as sentences, and the headroom does not contradict itself."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.analysis.judging import describe, figures_of
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.backends import Saturation
from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.analysis.findings.finding import SEVERITIES, first_act
from uwsgi_headroom.analysis.findings.other_limits import correct_headroom
from uwsgi_headroom.analysis.littles_law import noticed_wait
from uwsgi_headroom.analysis.verdict import verdict_sentence, worst_status
from uwsgi_headroom.history.window import Window, WorkerWindow
from uwsgi_headroom.record import (
    STATES,
    Backlog,
    Destination,
    LockHolder,
    LoopHold,
    LoopUse,
    Options,
    ServerRecord,
    Setup,
    SharedConnection,
    Waits,
    WorkerRecord,
)

BROKEN = re.compile(r"\b(None|nan|inf|True|False)\b|  |\.\.| [,.;]|[,;]\.|^(?!uWSGI)[a-z]|^\.")
"""Signs of a figure that is not known, or of a part that was left out."""

POSTGRES, WEB = Destination("backend", ("10.0.0.5:5432",)), Destination("backend", ("10.0.0.7:80",), connecting=True)
MANY = [Destination("backend", (f"10.0.1.{number}:80",)) for number in range(40)]


HIDDEN = Backlog(None, None, "nobody may see it")
OF_SOCKETS = {"clients_refused", "queue_filling"}
"""Codes of which each socket may have a finding."""


def make_worker(of: Random, worker_id: int, seconds: float, threads: int, *, is_async: bool) -> WorkerWindow:
    requests, busy = of.choice([0, 1, 30, 480]), of.choice([0.0, 0.1, 0.5, 0.98, 1.0]) * threads * seconds
    made = worker(
        worker_id,
        requests,
        each=of.choice([None, 0.1, busy / requests if requests else 0.1]),
        cpu=of.choice([None, 0.0, 0.1 * seconds, 0.99 * seconds]),
        busy=of.choice([None, busy, busy, busy]),
        up=of.choice([None, None, seconds, seconds / 2]),
        static=of.choice([0, 0, requests]),
        respawns=of.choice([0, 0, 1, 5]),
        lost=of.choice([0, 0, 7]),
    )
    locks = {
        "lock_seconds": seconds,
        "lock_waited_seconds": seconds / 2,
        "lock_held_seconds": of.choice([0.0, seconds]),
    }
    held = of.choice([0.0, seconds / 10, seconds]) if is_async else None
    return structs.replace(made, loop_held_seconds=held, **(locks if of.random() < 0.3 else {}))


def make_window(of: Random, processes: int, threads: int, names: list[str], *, is_async: bool) -> Window:
    seconds = of.choice([10.0, 60.0])
    rows = [make_worker(of, number, seconds, threads, is_async=is_async) for number in range(1, processes + 1)]
    busy, some = sum(each.busy_seconds or 0.0 for each in rows) / seconds, of.sample(STATES, of.choice([1, 3]))
    made = window(
        seconds,
        *rows,
        cpu=of.choice([None, (0.1, 7.0, 0.1), (7.9, 0.1, None), (1.0, 0.0, 7.0)]),
        waits=of.choice([None, dict.fromkeys(some, busy / len(some))]),
    )
    requests, places = sum(each.requests for each in rows), list(enumerate(names))  # no two sockets are alike
    return replace(
        made,
        queue_seconds={
            name: of.choice([0, 0.001, 1, 40, 101]) * seconds * (1 - 0.05 * place) for place, name in places
        },
        queue_full_seconds={name: of.choice([0.0, 0.1, 1.0]) * seconds for name in names},
        full_seconds=of.choice([0.0, 0.3, 1.0]) * seconds,
        reloads=of.choice([0, 0, 1]),
        exceptions=of.choice([0, 0, requests]),
        unanswered=of.choice([None, 0, requests]),
        harakiris=of.choice([0, 0, 3]),
        refused=of.choice([None, 0, 10_000]),
        idle_queue_seconds=of.choice([None, 0.0, seconds]),
        brimming_seconds=of.choice([None, 0.0, seconds / 2, seconds]),
        shared_connection_seconds=of.choice([None, 0.0, seconds * 2]),
        output_blocked_seconds=of.choice([None, 0.0, seconds * 4]),
        file_lock_seconds=of.choice([None, seconds]),
        file_lock_held_seconds=of.choice([None, seconds / 2, seconds]),
        starting_seconds=of.choice([None, 0.0, seconds]),
        handler_seconds=of.choice([None, 0.0, seconds / 3, 3 * seconds]),
    )


def change_worker(of: Random, known: WorkerRecord, threads: int) -> WorkerRecord:
    state = of.choice(["accepting"] * 8 + ["paused", "reserve", "down"])
    return structs.replace(
        known,
        state=state,
        pid=None if state == "down" else known.pid,
        local_pid=None if state == "down" else of.choice([known.local_pid, known.local_pid, None]),
        ended=of.random() < 0.05,
        has_application=of.random() < 0.7,
        ages={slot: of.choice([None, 0.1, 5.0, 400.0]) for slot in range(of.choice([0, 1, threads]))},
        last_spawn=of.choice([None, 0, 1000]),
        requests_per_life=of.choice([None, 100.0, 100.0]),
        starting=of.choice([None, 3.0, 100.0]) if state == "down" else None,
        open_fds=of.choice([None, 10, 1024]),
        most_fds=of.choice([None, 1024]),
    )


def make_server(of: Random, processes: int, threads: int, names: list[str], *, is_async: bool) -> ServerRecord:
    ids = range(1, processes + 1)
    loop = LoopUse(LoopHold(of.choice(STATES)), of.random() < 0.5, of.choice([0.0, 3.0, 400.0]))
    waits = Waits(
        threads={"backend": 8.0},
        holder=of.choice([None, "request", "processes", "thread", "nobody"]),
        destinations=dict.fromkeys(of.choice([[], [POSTGRES], [POSTGRES, WEB], MANY]), 1.0),
        pools=of.choice([{}, {1: 5}]),
        nap=of.choice([None, 0.01, math.inf]),
        websockets=of.choice([0.0, 0.8, 14.0]),
        file_lock_holder=of.choice([None, 101, 7]),
        uwsgi_lock_holder=of.choice([None, LockHolder(7, 0, 0.9)]),
        loops=dict.fromkeys(ids, loop) if is_async else None,
    )
    known = describe(Server(processes=processes, threads=threads, cpus=8.0), waits=waits)
    holders = of.choice([None, {name: tuple(ids)[place::2] for place, name in enumerate(names)}])
    options = Options(
        complete=of.random() < 0.7,
        names_application=of.random() < 0.6,
        cheaper=of.choice([None, 1, max(1, processes - 1)]),
        cheaper_initial=of.choice([None, max(1, processes - 1)]),
        lazy_apps=True,
        max_requests=of.choice([None, 100]),
        max_requests_delta=of.choice([None, 1, 25, 50]),
        max_worker_lifetime=of.choice([None, None, 10, 3600]),
        max_worker_lifetime_delta=of.choice([None, 900, 1800]),
        processes=processes,
        threads=threads,
    )
    return structs.replace(
        known,
        workers=tuple(change_worker(of, each, threads) for each in known.workers),
        setup=Setup(options, 4096, "async" if is_async else "threads", holders, holders is not None),
        shared_connections=of.choice([(), (SharedConnection("10.0.0.5:5432", processes),)]),
        queues={name: of.choice([HIDDEN, Backlog(101 - place, 100, None)]) for place, name in enumerate(names)},
    )


def make_figures(of: Random) -> Figures:
    """Figures of which each is possible, though not all together."""
    processes, threads, is_async = of.choice([1, 2, 4, 64]), of.choice([1, 4, 16]), of.random() < 0.2
    names = of.choice([[], ["app.sock"], ["app.sock", "b.sock"]])
    made = figures_of(
        make_window(of, processes, threads, names, is_async=is_async),
        make_server(of, processes, threads, names, is_async=is_async),
    )
    saturation = Saturation("", few=1.0, few_seconds=0.05, low=13.0, many=12.0, many_seconds=0.3, high=38.0)
    return replace(made, saturation=saturation) if of.random() < 0.3 else made


def check_headroom(found: Figures) -> None:
    """Each limit has one place; the first one is the least, or reached; no wait is longer than the window."""
    room, flow, of = found.headroom, found.flow, found.window
    limits = Counter([*room.by_limit, *room.far, *room.idle, *room.unknown])
    assert set(limits.values()) <= {1}, room
    assert all(0 < factor < math.inf for factor in room.by_limit.values()), room
    assert (room.first is None) == (not room.by_limit)
    assert room.first is None or room.by_limit[room.first] <= max(1 / REACHED, room.factor or 0.0), room
    assert (room.ceiling is None) == (not {*room.by_limit} - {"hottest_interpreter"}), room
    assert room.ceiling != "hottest_interpreter"
    assert "other" not in room.by_limit or room.other
    if found.usable:
        assert 0 < found.usable.factor <= (room.factor or 0.0) * 1.0001
        assert found.usable.first in room.by_limit
        assert found.usable.factor <= 1 or (flow.queue_wait or 0) < noticed_wait(flow.response_time)
    if flow.wait_is_floor:
        law = sum(of.queue_seconds.values()) / flow.requests
        assert (flow.queue_wait or 0.0) <= min(law, of.observed_seconds) * 1.0001


def check_finding(found: Figures, finding: Finding) -> None:
    """Its texts are sentences, of which none is said twice; commands name only processes that
    are proven to be of this server."""
    assert all(SEVERITIES.index(harm.severity) >= SEVERITIES.index(finding.severity) for harm in finding.harms)
    assert finding.title.count(": ") <= 1
    harms = [harm.evidence for harm in finding.harms]
    for text in filter(None, (finding.title, finding.evidence, finding.meaning, finding.change, *harms)):
        assert not BROKEN.search(text), text
    clauses = re.split(r"(?<=[.;]) ", " ".join([*harms, finding.evidence, finding.meaning, finding.change]))
    said = [clause.rstrip(".;") for clause in clauses if "wait" in clause]
    assert len(said) == len(set(said)), said
    options = found.server.setup.options
    assert all(getattr(options, name.replace("-", "_"), None) != number for name, number in finding.settings), finding
    pids = {str(each.local_pid) for each in found.server.workers if each.local_pid} | {"PID"}
    if found.server.waits and found.server.waits.uwsgi_lock_holder:
        pids.add(str(found.server.waits.uwsgi_lock_holder.pid))
    for named in re.findall(
        r"(?:kill -[A-Z]+ | --?p(?:id)? |/proc/|for pid in )((?:\d+|PID)(?: \d+| PID)*)", finding.change
    ):
        assert {*named.split()} <= pids, finding.change


@given(st.integers(0, 1 << 64))
@settings(max_examples=200, deadline=None)
def test_any_figures(seed: int) -> None:
    """What is wrong has something to do first, and the verdict is a sentence."""
    found = correct_headroom(make_figures(Random(seed)))
    check_headroom(found)
    findings = collect_findings(found)
    for finding in findings:
        check_finding(found, finding)
    codes = Counter(each.code for finding in findings for each in (finding, *finding.harms))
    assert {code for code, times in codes.items() if times > 1} <= OF_SOCKETS, "a finding stands twice"
    wrong = [finding for finding in findings if finding.severity != "info"]
    if any(finding.severity == "critical" for finding in wrong):
        assert any(first_act(finding.change) for finding in wrong)
    sentence = verdict_sentence(found.headroom, findings, usable=found.usable)
    assert not BROKEN.search(sentence)
    assert worst_status(findings) == "ok" or sentence == findings[0].title
