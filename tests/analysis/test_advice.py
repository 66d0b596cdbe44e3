"""Advice on capacity: more threads or processes are advised only where evidence shows that they help."""

import pytest

from tests.analysis.judging import findings_by_code
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.waits.worker_threads import WHO_MAY_KNOW
from uwsgi_headroom.record import Waits

HIDDEN = Waits(off=WHO_MAY_KNOW, needs_right=True)
STATS = "unix:///run/uwsgi/shop.stats"


def full(threads: int = 8, *, load: float = 0.01, **more: object) -> Window:
    """A minute of four workers whose threads are all in service, while requests wait. load: of each interpreter."""
    rows = (worker(number, 1200, cpu=60 * load, busy=60.0 * threads) for number in range(1, 5))
    return window(60, *rows, **{"app.sock": 60 * 30.0}, **more)


def judged(of: Window, waits: Waits | None = HIDDEN, *, threads: int = 8, **known: object) -> dict[str, Finding]:
    server = Server(processes=4, threads=threads, cpus=8.0)
    return findings_by_code(of, server, **{"waits": waits, "address": STATS, **known})


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
