"""Advice on capacity: more threads or processes are advised only where evidence shows that they help."""

import pytest

from tests.analysis.judging import findings_by_code, setup
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.waits.thread_wait import GAP_MIXED
from uwsgi_headroom.kernel.waits.worker_threads import WHO_MAY_KNOW
from uwsgi_headroom.record import Waits

HIDDEN = Waits(off=WHO_MAY_KNOW, needs_right=True)
OFF = Waits(off="a worker of this uWSGI serves all its requests on one thread")
STATS = "unix:///run/uwsgi/shop.stats"
COMMAND = "`sudo $(command -v uwsgi-headroom) check /run/uwsgi/shop.stats`"


def full(threads: int = 8, *, load: float = 0.01, **more: object) -> Window:
    """A minute of four workers whose threads are all in service, while requests wait. load: of each interpreter."""
    rows = (worker(number, 1200, cpu=60 * load, busy=60.0 * threads) for number in range(1, 5))
    return window(60, *rows, **{"app.sock": 60 * 30.0}, **more)


def judged(of: Window, waits: Waits | None = HIDDEN, *, threads: int = 8, **known: object) -> dict[str, Finding]:
    server = Server(processes=4, threads=threads, cpus=8.0)
    return findings_by_code(of, server, **{"waits": waits, "address": STATS, **known})


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("code", ["saturation", "queue_wait"])
def test_without_waits_neither_is_advised(threads, code):
    """An idle interpreter is no evidence: threads that wait for one lock are idle, too. The advice is one command that
    shows the waits, and what to do in each case."""
    change = judged(full(threads), threads=threads)[code].change
    assert not change.startswith("Raise")
    assert change.startswith(f"Run {COMMAND} on uWSGI's host to see what the threads wait for.")
    assert all(branch in change for branch in ("a lock of the application", "a backend", "slow clients"))


MOSTLY, PARTLY = (full(waits={"unknown": 16.0 + more, "sleep": 16.0 - more}) for more in (1.0, -1.0))
SEEN = Waits(gaps=(GAP_MIXED,))


@pytest.mark.parametrize(
    ("of", "waits", "act"),
    [
        # Interpreters that compute are evidence for processes: each has one of its own.
        (full(load=0.46), HIDDEN, "Raise `processes` from 4 to 8"),
        (full(load=0.45), HIDDEN, f"Run {COMMAND}"),
        # A tenth of all CPUs idle counts as none. With other programs in them, more workers would only compete.
        (full(cpu=(4.0, 0.79, 3.21)), HIDDEN, "Move the other programs to another host, or add CPUs."),
        (full(cpu=(4.0, 0.81, 3.19)), HIDDEN, f"Run {COMMAND}"),
        # Workers that use less than a twentieth of the CPUs are not limited by what others do to the rest.
        (full(cpu=(0.41, 0.1, 7.49)), HIDDEN, "Move the other programs"),
        (full(cpu=(0.39, 0.1, 7.51)), HIDDEN, f"Run {COMMAND}"),
        # Where the kernel shows the waits, but does not decide most of them, a command as root shows no more.
        (MOSTLY, SEEN, "Run `py-spy dump --pid 101`"),
        (PARTLY, SEEN, "Raise `threads` from 8 to 21"),
    ],
)
def test_what_is_advised(of, waits, act):
    """It follows from what is known of interpreters, CPUs and waits."""
    assert judged(of, waits)["saturation"].change.startswith(act)


@pytest.mark.parametrize(
    ("address", "argument"),
    [
        ("unix:///run/a b$(x).stats", "'/run/a b$(x).stats'"),
        ("127.0.0.1:1717", "127.0.0.1:1717"),
        ("http://127.0.0.1:80/stats?...", "--all"),
        ("", "--all"),
    ],
)
def test_the_command_can_be_pasted(address, argument):
    """A socket's name, which others may have chosen, is quoted for the shell. Where the address is not known in full,
    as in a review of history, the command checks all servers of the host."""
    assert f"check {argument}` on uWSGI's host" in judged(full(), address=address)["saturation"].change


@pytest.mark.parametrize(
    ("busy", "code", "words"),
    [
        (480.0, "saturation", "Raise `gevent` (or `async`) if requests stay open on purpose"),
        (60.0, "queue_wait", "a call that does not yield stops all other requests"),
    ],
)
def test_coroutines_are_not_advised_blindly(busy, code, words):
    """Nothing shows what each coroutine waits for. More of them help long requests and a backend that has room; if
    requests wait while cores are free, something blocks the worker."""
    of = window(60, *(worker(number, 1200, cpu=1.0, busy=busy) for number in range(1, 5)), **{"app.sock": 1800.0})
    assert words in judged(of, OFF, setup=setup("async", gevent=8))[code].change


def test_hidden_processes_hide_waits():
    """Where no process is proven, the reason is that of the processes."""
    hidden = HostFacts(off="the stats server is on another machine: run the exporter there")
    found = findings_by_code(full(load=0), Server(processes=4, threads=8), host=hidden, address=STATS)
    assert COMMAND in found["saturation"].change


@pytest.mark.parametrize(
    ("backends", "words"),
    [
        ({"postgres": 6.0, "redis": 1.0}, "Threads wait for postgres for 75 % of their time."),
        ({"postgres": 2.0, "redis": 1.9}, "Threads wait for backends for 88 % of their time (for postgres: 25 %)."),
        ({"redis": 0.1}, "Threads wait for backends for 88 % of their time."),
        ({}, "Threads wait for backends for 88 % of their time."),
    ],
)
def test_a_backend_has_its_own_share(backends, words):
    """The share beside its name is not that of all backends together."""
    threads = {"backend": 7.0, "cpu": 1.0}
    found = judged(full(waits=threads, backends=backends), Waits(threads=threads, backends=backends))
    assert words in found["queue_wait"].change
