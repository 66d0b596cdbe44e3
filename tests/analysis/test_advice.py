"""Advice on capacity: more threads or processes are advised only where evidence shows that they help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.test_findings import AT, findings_by_code
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.waits.thread_wait import GAP_MIXED
from uwsgi_headroom.kernel.waits.worker_threads import WHO_MAY_KNOW
from uwsgi_headroom.record import Options, Setup, Waits

HIDDEN = Waits(off=WHO_MAY_KNOW, needs_right=True)
STATS = "unix:///run/uwsgi/shop.stats"
COMMAND = "`sudo $(command -v uwsgi-headroom) check /run/uwsgi/shop.stats`"


def full(threads: int = 8, *, load: float = 0.01, **more: object) -> Window:
    """A minute of four workers whose threads are all in service, while requests wait. load: of each interpreter."""
    rows = (worker(number, 1200, cpu=60 * load, busy=60.0 * threads) for number in range(1, 5))
    return window(60, *rows, **{"app.sock": 60 * 30.0}, **more)


def judged(of: Window, waits: Waits | None = HIDDEN, *, threads: int = 8, **host: object) -> dict[str, Finding]:
    server = Server(processes=4, threads=threads, cpus=8.0)
    facts = replace(server.read(AT).host, waits=waits, **host)
    return findings_by_code(of, server, host=facts, address=STATS)


def advises_more(finding: Finding) -> bool:
    return "Raise `threads`" in finding.change or "Raise `processes`" in finding.change


@pytest.mark.parametrize("threads", [1, 8])
def test_without_waits_neither_is_advised(threads: int) -> None:
    """An idle interpreter is no evidence: threads that wait for one lock are idle, too. The advice is one command that
    shows the waits, and what to do in each case."""
    by_code = judged(full(threads), threads=threads)
    for code in ("saturation", "queue_wait"):
        change = by_code[code].change
        assert not advises_more(by_code[code])
        assert change.startswith(
            f"Run {COMMAND} on uWSGI's host to see what the threads wait for. If threads wait for a lock"
        )
        assert all(branch in change for branch in ("a lock of the application", "a backend", "slow clients"))


def test_busy_interpreters_are_evidence_for_processes() -> None:
    """They compute, whatever else they wait for, and each process has an interpreter of its own."""
    assert judged(full(load=0.46))["saturation"].change.startswith("Raise `processes` from 4 to 8")
    assert not advises_more(judged(full(load=0.45))["saturation"])


def test_where_no_cpu_is_idle_neither_is_advised() -> None:
    """A tenth of all CPUs counts as none: 0.8 of 8. With other programs in them, more workers would only compete."""
    by_idle = {idle: judged(full(cpu=(4.0, idle, 4.0 - idle)))["saturation"].change for idle in (0.79, 0.81)}
    assert by_idle[0.79] == "Move the other programs to another host, or add CPUs."
    assert "other programs" not in by_idle[0.81]


@pytest.mark.parametrize(("own", "lacks"), [(0.41, True), (0.39, False)])
def test_a_server_that_hardly_computes_lacks_no_cpu(own: float, lacks: bool) -> None:
    """Its workers use less than a twentieth of the 8 CPUs: what other programs do to the rest is not its limit."""
    change = judged(full(cpu=(own, 0.1, 7.9 - own)))["saturation"].change
    assert ("Move the other programs" in change) is lacks


def test_waits_that_are_mostly_unknown_are_no_evidence() -> None:
    """Where the kernel shows the waits, but does not decide most of them, a command as root shows no more."""
    seen = Waits(gaps=(GAP_MIXED,))
    mostly, partly = (full(waits={"unknown": 16.0 + more, "sleep": 16.0 - more}) for more in (1.0, -1.0))
    finding = judged(mostly, seen)["saturation"]
    assert not advises_more(finding)
    assert "`py-spy dump --pid 101`" in finding.change
    assert "sudo" not in finding.change
    assert judged(partly, seen)["saturation"].change.startswith("Raise `threads` from 8 to 21")


@pytest.mark.parametrize(
    ("address", "argument"),
    [
        ("unix:///run/a b$(x).stats", "'/run/a b$(x).stats'"),
        ("127.0.0.1:1717", "127.0.0.1:1717"),
        ("http://127.0.0.1:80/stats?...", "--all"),
        ("", "--all"),
    ],
)
def test_the_command_can_be_pasted(address: str, argument: str) -> None:
    """A socket's name, which others may have chosen, is quoted for the shell. Where the address is not known in full,
    as in a review of history, the command checks all servers of the host."""
    server = Server(processes=4, threads=8, cpus=8.0)
    host = replace(server.read(AT).host, waits=HIDDEN)
    change = findings_by_code(full(), server, host=host, address=address)["saturation"].change
    assert f"check {argument}` on uWSGI's host" in change


def coroutines() -> Setup:
    return Setup(Options(gevent=8), 4096, "async", None, False)


def test_coroutines_are_not_advised_blindly() -> None:
    """Nothing shows what each coroutine waits for. More of them help long requests and a backend that has room; if
    requests wait while cores are free, something blocks the worker."""
    off = Waits(off="a worker of this uWSGI serves all its requests on one thread")
    change = judged(full(), off, setup=coroutines())["saturation"].change
    assert change.startswith("Raise `gevent` (or `async`) if requests stay open on purpose (event streams, WebSockets,")
    assert "a worker then serves more requests at once" in change
    blocked = window(
        60, *(worker(number, 1200, cpu=1.0, busy=60.0) for number in range(1, 5)), **{"app.sock": 60 * 30.0}
    )
    assert (
        "a call that does not yield stops all other requests"
        in judged(blocked, off, setup=coroutines())["queue_wait"].change
    )


def test_hidden_processes_hide_waits() -> None:
    """Where no process is proven, the reason is that of the processes."""
    server = Server(processes=4, threads=8)
    reason = "the stats server is on another machine: run the exporter there"
    by_code = findings_by_code(full(load=0), server, host=HostFacts(off=reason), address=STATS)
    assert COMMAND in by_code["saturation"].change


@pytest.mark.parametrize(
    ("backends", "words"),
    [
        ({"postgres": 6.0, "redis": 1.0}, "Threads wait for postgres for 75 % of their time."),
        ({"postgres": 2.0, "redis": 1.9}, "Threads wait for backends for 88 % of their time (for postgres: 25 %)."),
        ({"redis": 0.1}, "Threads wait for backends for 88 % of their time."),
        ({}, "Threads wait for backends for 88 % of their time."),
    ],
)
def test_a_backend_has_its_own_share(backends: dict[str, float], words: str) -> None:
    """The share beside its name is not that of all backends together."""
    of = full(waits={"backend": 7.0, "cpu": 1.0}, backends=backends)
    by_code = judged(of, Waits(threads={"backend": 7.0, "cpu": 1.0}, backends=backends))
    assert words in by_code["queue_wait"].change
