"""uWSGI's processes that are no workers, on a real uWSGI, and on processes of this test; the tasks of spoolers."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from tests.kernel.contained import snapshot_of, started
from tests.support.other_namespaces import as_nobody, as_root
from tests.support.real_uwsgi import Uwsgi, free_port, uwsgi, wait_until
from tests.support.simulated_server import MovableClock, Server
from uwsgi_headroom.kernel import procfs, roles
from uwsgi_headroom.kernel.aside import Direct, NotYetError, PausedError
from uwsgi_headroom.kernel.processes import list_children
from uwsgi_headroom.kernel.roles import FIRST_SECONDS, LOOK_SECONDS, Roles, Spools, list_roles
from uwsgi_headroom.kernel.shared_connections import SharedConnections
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.stats.raw import Spooler
from uwsgi_headroom.surroundings import Role, RoleUse


def look(server: Uwsgi, reader: Roles) -> dict[Role, RoleUse]:
    snapshot = snapshot_of(server)
    workers = [worker.pid for worker in snapshot.workers if worker.pid]
    uses = reader.read(server.pid, workers, list_roles(snapshot))
    return {use.role: use for use in uses}


PROCESSES: dict[Role, int] = {"daemon": 1, "master": 1, "mule": 2, "router": 2, "spooler": 1}
"""How many of each role the server of these tests has."""


def _count(server: Uwsgi) -> dict[Role, int]:
    return {role: use.processes for role, use in look(server, Roles()).items()}


@pytest.fixture(scope="module", params=["", "--auto-procname"])
def server(request, tmp_path_factory):
    """A uWSGI with a process of each role, with names of its own or without."""
    spool = tmp_path_factory.mktemp("spool")
    options = ["--mule", "--mule", "--spooler", str(spool), "--attach-daemon", "sleep 100; true"]
    options += ["--http", f"127.0.0.1:{free_port()}", "--fastrouter", f"127.0.0.1:{free_port()}"]
    with uwsgi("--processes", "2", *options, *([request.param] if request.param else [])) as running:
        wait_until(lambda: len(list_children(running.pid)) == 8, what="all processes to be there")
        # Until then, a process that was just forked has the descriptors and the name of the master. Two looks see that.
        wait_until(lambda: _count(running) == PROCESSES, what="each process to have taken up its role")
        yield running


@pytest.mark.integration
def test_every_role_is_recognized(server):
    assert (_count(server), look(server, Roles())["master"].threads) == (PROCESSES, 1)
    assert all(use.resident_bytes > 500_000 for use in look(server, Roles()).values())


@pytest.mark.integration
def test_a_router_with_many_clients_is_a_router():
    """Its listening socket is found among its connections, and its descriptors are counted."""
    port = free_port()
    with uwsgi("--http", f"127.0.0.1:{port}") as running, ExitStack() as clients:
        for _ in range(150):
            clients.enter_context(socket.create_connection(("127.0.0.1", port)))
        wait_until(lambda: getattr(look(running, Roles()).get("router"), "files", 0) > 150, what="it to accept all")
        router = look(running, Roles())["router"]
        assert (router.processes, router.most_files) == (1, procfs.read_limits(running.pid)["open files"])


@pytest.mark.integration
@as_root
def test_without_the_right_to_see_descriptors_the_role_of_the_rest_is_unknown(server):
    snapshot = snapshot_of(server)
    workers = [worker.pid or 0 for worker in snapshot.workers]
    uses = as_nobody(lambda: Roles().read(server.pid, workers, list_roles(snapshot)))
    found = {use.role: use.processes for use in uses}
    assert found["daemon"] == found["master"] == found["spooler"] == 1
    assert found.get("other", 0) + found.get("mule", 0) + found.get("router", 0) == 4


def test_cpu_use_is_known_at_the_second_look():
    hands = MovableClock()
    reader = Roles(hands.clock.monotonic)
    with started(sys.executable, "-c", "while True: pass") as child:
        first = {use.role: use for use in reader.read(os.getpid(), [], {})}
        assert all(use.cpus is None for use in first.values())
        wait_until(lambda: _used(child.pid) > 0.2, what="the child to compute")
        hands.move(FIRST_SECONDS)
        second = reader.read(os.getpid(), [], {})
        assert sum(use.cpus or 0.0 for use in second) >= 0.1 / FIRST_SECONDS
    hands.move(LOOK_SECONDS - 0.1)
    assert reader.read(os.getpid(), [], {}) is second, "it looks every ten seconds"
    hands.move(0.2)
    third = {use.role: use for use in reader.read(os.getpid(), [], {})}
    assert sum(use.processes for use in third.values()) < sum(use.processes for use in second)
    for use in second:
        assert use.role not in third or third[use.role].cpu_seconds >= use.cpu_seconds


def test_what_a_daemon_starts_is_its_own():
    """uWSGI starts a daemon by a shell, which may stay: what the shell runs counts, and is no daemon more."""
    hands = MovableClock()
    reader = Roles(hands.clock.monotonic)
    command = f"{sys.executable} -c 'while True: pass'; true"
    shell = subprocess.Popen(["sh", "-c", command], start_new_session=True)
    try:
        wait_until(lambda: any(_used(child) > 0.1 for child in list_children(shell.pid)), what="the program to compute")
        reader.read(os.getpid(), [], {})
        (program,) = list_children(shell.pid)
        before = _used(program)
        wait_until(lambda: _used(program) > before + 0.2, what="it to compute")
        hands.move(FIRST_SECONDS)
        uses = {use.role: use for use in reader.read(os.getpid(), [], {})}
        assert (uses["daemon"].cpus or 0.0) >= 0.2 / FIRST_SECONDS
        assert sum(use.processes for use in uses.values()) == 1 + len(list_children(os.getpid()))
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def _used(pid: int) -> float:
    return sum(int(number) for number in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]) / 100


def test_a_process_that_is_new_is_not_counted_yet():
    """It may be a worker that was spawned after uWSGI's document was written."""
    hands = MovableClock()
    reader = Roles(hands.clock.monotonic)
    before = sum(use.processes for use in reader.read(os.getpid(), [], {}))
    with started("sleep", "60"):
        counts = []
        for _ in range(2):
            hands.move(LOOK_SECONDS)
            counts.append(sum(use.processes for use in reader.read(os.getpid(), [], {})))
    assert counts == [before, before + 1]


def test_a_process_with_very_many_descriptors():
    """Neither its role nor what it shares takes long to find out."""
    code = "import os, resource, sys\n"
    code += "most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
    code += "resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))\n"
    code += "files = [os.dup(0) for _ in range(min(most, 100_000) - 20)]\n"
    code += "print(len(files), flush=True); sys.stdin.read()"
    with started(sys.executable, "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        number = int(child.stdout.readline())
        began = time.thread_time()
        assert Roles().read(os.getpid(), [], {})
        assert SharedConnections().read(child.pid, [child.pid, os.getpid()]) == ()
        assert time.thread_time() - began < 0.1
        counted = procfs.count_descriptors(child.pid)
        assert counted is None or abs(counted - number) < 20


def test_a_bounded_number_of_processes(monkeypatch):
    """A master with any number of children costs a bounded time; one that has ended has none."""
    monkeypatch.setattr(roles, "MOST_PROCESSES", 2)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(started("sleep", "60"))
        assert sum(use.processes for use in Roles().read(os.getpid(), [], {})) == 3
    assert Roles().read(2**22 + 1, [], []) == ()


T = TypeVar("T")


def with_spoolers(*directories: str) -> Snapshot:
    spoolers = tuple(Spooler(directory=directory, tasks=1) for directory in directories)
    return replace(Server().read(0.0).snapshot, spoolers=spoolers)


def add_tasks(folder: Path, number: int, first: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    for place in range(first, first + number):
        (folder / f"uwsgi_spoolfile_on_host_1_{place}").touch()


def count_tasks(*directories: str) -> list[int | None]:
    found = Spools().read(os.getpid(), with_spoolers(*directories), 0.0)
    return [found.get(directory) for directory in directories]


def test_tasks_are_counted(tmp_path, monkeypatch):
    """With those of priorities, without other files and tasks for later. Names are below the master's directory."""
    monkeypatch.chdir(tmp_path.parent)
    add_tasks(tmp_path, 3)
    add_tasks(tmp_path / "10", 2)
    add_tasks(tmp_path / "other", 5)
    (tmp_path / "notes").touch()
    later = tmp_path / "uwsgi_spoolfile_on_host_later"
    later.touch()
    os.utime(later, (time.time() + 3600, time.time() + 3600))
    assert count_tasks(str(tmp_path), tmp_path.name) == [5, 5]


@pytest.mark.parametrize("name", ["", "/no/such", "/etc/passwd", "/a\0b", "../" * 2000, "/proc/1/root\n"])
def test_of_a_name_that_cannot_be_listed_nothing_is_known(name):
    assert count_tasks(name) == [None]


def test_tasks_are_counted_seldom(tmp_path):
    add_tasks(tmp_path, 1)
    asked, snapshot = Spools(), with_spoolers(str(tmp_path))
    first = asked.read(os.getpid(), snapshot, 0.0)
    add_tasks(tmp_path, 1, first=1)
    assert asked.read(os.getpid(), snapshot, 9.9) is first
    assert asked.read(os.getpid(), snapshot, 10.0) == {str(tmp_path): 2}
    assert asked.read(os.getpid(), with_spoolers("/no/such"), 10.1) == {}


class Late(Direct):
    """Answers the first questions late, then never."""

    def __init__(self, *errors: OSError) -> None:
        self.errors = list(errors)

    def ask(self, question: Callable[..., T], *arguments: Hashable) -> T:
        if self.errors:
            raise self.errors.pop(0)
        return question(*arguments)


def test_a_directory_that_does_not_answer_is_not_asked_again_at_once(tmp_path):
    (tmp_path / "uwsgi_spoolfile_on_a").touch()
    snapshot = with_spoolers(str(tmp_path))
    late = Spools(Late(NotYetError(), NotYetError()))
    assert [late.read(os.getpid(), snapshot, now) for now in (0.0, 0.2, 0.4)] == [{}, {}, {str(tmp_path): 1}]
    never = Spools(Late(PausedError("hung")))
    assert [never.read(os.getpid(), snapshot, now) for now in (0.0, 9.9, 10.0)] == [{}, {}, {str(tmp_path): 1}]


def test_bounds_of_what_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(roles, "MOST_ENTRIES", 10)
    asked: list[str] = []
    real = roles._count_in
    monkeypatch.setattr(roles, "_count_in", lambda pid, name: asked.append(name) or real(pid, name))
    add_tasks(tmp_path, 20)
    many = [str(tmp_path), *(str(tmp_path / str(number)) for number in range(100))]
    assert Spools().read(os.getpid(), with_spoolers(*many), 0.0) == {str(tmp_path): 10}
    assert len(asked) == roles.MOST_DIRECTORIES
