"""Servers that nobody configured: who gets a name and a place, and what is said of the others."""

import asyncio
import os

import pytest

from tests.support.captured_documents import path
from tests.support.other_namespaces import as_root, python_in
from tests.support.simulated_server import MovableClock
from tools.environments import ROOT
from uwsgi_headroom.discover.find import NO_TIME, NOT_ALLOWED, FoundMaster
from uwsgi_headroom.source import ProcessOfApp, Unix
from uwsgi_headroom.source.address import File
from uwsgi_headroom.watch.found import AGAIN_SECONDS, MOST_FOUND, MOST_OF_USER, FoundServers
from uwsgi_headroom.watch.globbed import GONE_SECONDS
from uwsgi_headroom.watch.watch import Watch

NOT_YET = 9_000_000
"""A PID above the largest that Linux gives: no process has it."""


class Machine:
    """Found servers of a machine. Each watch reads a captured document, until `down` has its name."""

    def __init__(self, *configured: Watch) -> None:
        self.time = MovableClock()
        self.found = FoundServers(self.watch, lambda: configured, self.time.clock, lambda: None)

    def watch(self, name, address):
        watch = Watch(name, address, clock=self.time.clock)
        watch.reader.address = File(str(path("threads_4x8_busy")))
        return watch

    def take(self, *masters, connects=True):
        self.found.take(masters, connects=connects)
        return [watch.name for watch in self.found.watches()]

    def read(self):
        async def read_all():
            for watch in self.found.watches():
                await watch.reader.read()

        asyncio.run(read_all())

    def fail(self):
        for watch in self.found.watches():
            watch.reader.address = File("/nowhere")
        self.read()

    def said(self):
        return {each.reason: each.number for each in self.found.not_watched}


def master(number=1, user="www-data", name="shop", **facts):
    place = ProcessOfApp(NOT_YET + number)
    facts = {"pid": os.getpid(), "address": place, "configuration": f"/etc/{name}.ini", **facts}
    return FoundMaster(user=user, **facts)


def test_nobody_takes_the_name_of_another_user():
    """A name ends with the user; equal names of one user get a number. A hostile name of a file is none."""
    machine = Machine(Watch("wiki@www-data", Unix("/run/wiki")))
    others = [
        master(at, name=name) for at, name in enumerate(("wiki", "shop@www-data", "a\x1b[2J\udc80", "x" * 300), 4)
    ]
    names = machine.take(master(1, "mallory"), master(2), master(3), *others)
    assert names[:4] == ["shop@mallory", "shop@www-data", "shop-2@www-data", "wiki-2@www-data"]
    assert names[4:] == ["etc@www-data", "etc-2@www-data", f"{'x' * 64}@www-data"]


def test_nobody_takes_the_place_of_another_user():
    machine = Machine()
    many = [master(at, "mallory", f"m{at}") for at in range(1000)]
    names = machine.take(*many, master(2000), master(2001, "mallory", "unit", enabled_unit="unit.service"))
    assert sum(name.endswith("@mallory") for name in names) == MOST_OF_USER
    assert {"shop@www-data", "unit@mallory"} <= {*names}
    assert machine.said() == {"limit": 1000 - MOST_OF_USER + 1}
    users = [master(3000 + at, f"user{at}") for at in range(MOST_FOUND)]
    assert len(machine.take(*users)) == MOST_FOUND
    (limit,) = machine.found.not_watched
    assert len(limit.names) < 30


@pytest.mark.parametrize(
    ("found", "connects", "reason"),
    [
        (master(trouble=NOT_ALLOWED, address=None), False, "rights"),
        (master(trouble=NOT_ALLOWED, address=None), True, "rights"),
        (master(), False, "not_configured"),
        (master(trouble=NO_TIME), True, "unreadable"),
        (master(address=None), True, "unreadable"),
        (master(address=Unix("/run/configured")), True, None),
        (master(address=Unix("/run/configured")), False, None),
    ],
)
def test_what_is_not_watched_is_said_with_what_to_do(found, connects, reason):
    """Without the right, with it but off, or if it cannot be read; not if its address is configured."""
    machine = Machine(Watch("configured", Unix("/run/configured")))
    assert machine.take(found, connects=connects) == []
    assert [each.reason for each in machine.found.not_watched] == [reason] * bool(reason)
    for each in machine.found.not_watched:
        assert each.names == (f"shop@www-data, PID {os.getpid()}",)
        assert "seen, not watched" in each.why
        assert ("waits.conf" in each.act) == (reason == "rights")
        assert "{" not in each.act + each.why


@pytest.mark.parametrize("unit", ["", "shop.service"])
def test_only_a_server_of_a_unit_stays_as_down(unit):
    machine = Machine()
    shop = master(enabled_unit=unit)
    machine.take(shop)
    assert machine.found.shown() == []  # it may be none
    machine.read()
    (watch,) = machine.found.shown()
    machine.time.move(GONE_SECONDS)
    machine.fail()
    assert machine.found.is_optional(watch) == (not unit)
    machine.found.forget()
    assert machine.found.watches() == [watch] * bool(unit)
    if not unit:
        assert machine.take(shop) == []
        assert machine.said() == {"unreadable": 1}
        machine.time.move(AGAIN_SECONDS)
        assert machine.take(shop) == ["shop@www-data"]


def test_one_that_was_never_up_is_forgotten_even_in_a_unit():
    machine = Machine()
    machine.take(master(enabled_unit="shop.service"))
    machine.fail()
    machine.time.move(GONE_SECONDS)
    machine.found.forget()
    assert machine.found.watches() == []


@pytest.mark.parametrize("pid", [NOT_YET, os.getpid()], ids=["ended", "runs"])
def test_a_successor_takes_the_name_of_one_that_has_ended(pid):
    machine = Machine()
    machine.take(master(pid=pid))
    machine.read()
    machine.time.move(GONE_SECONDS / 2)
    machine.fail()
    assert machine.take(master(2)) == ["shop@www-data"] + ["shop-2@www-data"] * (pid == os.getpid())


BEGIN = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    + """
import json, os, signal, subprocess, sys, tempfile
from tests.discover import hostile_master
from tests.support.exporter import COMMAND, exporter
from tests.support.real_uwsgi import uwsgi, wait_until

def listed(running):
    return json.loads(running.get("/api/v2/servers")[1])

def reasons(running):
    return {each["reason"]: each["number"] for each in listed(running)["not_watched"]}

def series(running, *words):
    return [line for line in running.metrics().splitlines() if all(word in line for word in words)]

def seen(running, source):
    states = {each["name"]: each["state"] for each in listed(running)["servers"]}
    up = [name for name, state in states.items() if state == "up"]
    return [name for name in up if series(running, f'server="{name}",source="{source}"')]
"""
)

WATCHED = """
with uwsgi("--processes", "2", stats=False) as other, uwsgi("--processes", "2") as shop, \\
        exporter("--stats", "configured=file:///nowhere", "--discover") as running:
    wait_until(lambda: seen(running, "kernel") and seen(running, "stats"), what="both")
    (kernel,), (stats,) = seen(running, "kernel"), seen(running, "stats")
    assert kernel.endswith("@root") and stats.endswith("@root"), (kernel, stats)
    assert reasons(running) == {}
    assert series(running, "uwsgi_found{", kernel), "no alert says that it is down"
    addresses = {each["name"]: each["address"] for each in listed(running)["servers"]}
    assert addresses[kernel] in (f"app:127.0.0.1:{other.http}", f"app:{other.socket}"), addresses
    assert addresses[stats] == f"unix://{shop.stats}", addresses
    os.killpg(other.pid, signal.SIGKILL)
    wait_until(lambda: not series(running, "uwsgi_up{", kernel), what="no metrics of what has ended")
    assert series(running, 'uwsgi_up{server="configured"} 0'), "this one is down"
    (gone,) = [each["state"] for each in listed(running)["servers"] if each["name"] == kernel]
    assert gone == "down"
print("done")
"""

NOT_WATCHED = """
NO_RIGHTS = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all", *COMMAND)
with uwsgi("--processes", "2") as shop, uwsgi("--processes", "1", stats=False):
    for command, reason in ((COMMAND, "not_configured"), (NO_RIGHTS, "rights")):
        with exporter("--stats", f"shop=unix://{shop.stats}", command=command) as running:
            wait_until(lambda: reasons(running), what="what is not watched")
            assert reasons(running) == {reason: 1}
            assert running.scrape()[f'uwsgi_exporter_servers_not_watched{{reason="{reason}"}}'] == 1
            assert len(seen(running, "stats")) == 1
            assert "seen, not watched" in running.get("/servers")[1]
print("done")
"""

FORGED = """
folder = tempfile.mkdtemp(prefix="found-")
os.chmod(folder, 0o777)
forged = [
    subprocess.Popen(
        [sys.executable, hostile_master.__file__, json.dumps({"ids": ((65534,) * 3, (65534,) * 3), **does})],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )
    for does in [{"claims": {"arg": 2 << 30}}, {"epoll": (400, 400)}, {"documents": (folder, 6)}, *[{}] * 10]
]
for each in forged:
    each.stdout.readline()
with uwsgi("--processes", "2", stats=False), exporter("--stats", "file:///nowhere", "--discover") as running:
    wait_until(lambda: seen(running, "kernel"), what="the real one")
    assert [each["name"].partition("@")[2] for each in listed(running)["servers"]] == ["", "root"]
    assert reasons(running) == {"unreadable": len(forged)}
    with exporter("--stats", "file:///nowhere") as running:
        wait_until(lambda: reasons(running), what="what is not watched")
        assert reasons(running) == {"not_configured": len(forged) + 1}
for each in forged:
    each.stdin.close()
print("done")
"""


@pytest.mark.integration
@as_root
@pytest.mark.parametrize("scene", [WATCHED, NOT_WATCHED, FORGED], ids=["watched", "not watched", "forged"])
def test_a_machine(scene):
    """With `--discover`, each is watched until it ends. Without it, or rights, it is listed with the reason."""
    assert python_in("--pid --mount-proc", BEGIN + scene).split()[-1] == "done"
