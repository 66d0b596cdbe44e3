"""What the kernel alone shows of real uWSGIs: which threads they have, which are busy, and what these wait for."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import psutil
import pytest
from msgspec import Struct

from tests.kernel.waits.test_sampler import needs_known_calls
from tests.support.exporter import run
from tests.support.other_namespaces import as_nobody, as_root, over_ipv6
from tests.support.real_uwsgi import Uwsgi, bare, free_port, uwsgi_binary, wait_until
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.documents.build import build_server
from uwsgi_headroom.errors import NotStartedError, SourceError
from uwsgi_headroom.kernel import seen_server
from uwsgi_headroom.kernel.aside import DIRECT
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.processes import MOST_CHILDREN
from uwsgi_headroom.kernel.procfs import list_descriptors
from uwsgi_headroom.kernel.request_sets import RequestSets, find_sets
from uwsgi_headroom.kernel.sock_diag import list_listeners
from uwsgi_headroom.kernel.waits import worker_threads
from uwsgi_headroom.kernel.waits.sampler import WaitSetting
from uwsgi_headroom.metrics import families
from uwsgi_headroom.source import ProcessOfApp, SocketOfApp, parse_address
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch.watch import Watch

pytestmark = [pytest.mark.integration, needs_known_calls]

WAITING = Path(__file__).parents[1] / "support/waiting_app.py"

VASSAL = f"[uwsgi]\nhttp-socket = 127.0.0.1:%s\nmaster = 1\nprocesses = 2\nthreads = 2\nwsgi-file = {WAITING}\n"


class Setup(Struct, frozen=True):
    """How uWSGI is started, and how many workers and threads it then has. sockets: on how many it listens."""

    options: str
    workers: int
    threads: int
    sockets: int = 1
    router: bool = False
    emperor: bool = False


SETUPS = {
    "8x1": Setup("--master --processes 8", 8, 8),
    "2x4": Setup("--master --processes 2 --threads 4", 2, 8),
    "no master, one process": Setup("--threads 3", 1, 3),
    "no master, two processes": Setup("--processes 2 --threads 2", 2, 4),
    "thunder-lock": Setup("--master --processes 2 --threads 4 --thunder-lock", 2, 8),
    "two sockets": Setup("--master --processes 2 --threads 2", 2, 4, sockets=2),
    "map-socket": Setup("--master --processes 2 --threads 2 --map-socket 0:1 --map-socket 1:2", 2, 4, sockets=2),
    "http router": Setup("--master --processes 2 --threads 2", 2, 4, router=True),
    "offload threads": Setup("--master --threads 4 --offload-threads 3", 1, 4),
    "cheaper": Setup("--master --processes 4 --threads 2 --cheaper 2 --cheaper-overload 600", 2, 4),
    "auto-procname": Setup("--master --processes 2 --threads 2 --auto-procname", 2, 4),
    "emperor": Setup("--emperor {directory}/vassals", 2, 4, emperor=True),
}


class Running(Struct, frozen=True):
    server: Uwsgi
    pid: int
    ports: Sequence[int]


def accept(listener: socket.socket) -> None:
    kept = []
    with suppress(OSError):
        while True:
            kept.append(listener.accept())


def make_host() -> Host:
    return Host(waits=WaitSetting())


@contextmanager
def serving(
    *options: str, app: Path | str = WAITING, files: dict[str, str] | None = None
) -> Iterator[tuple[Uwsgi, int]]:
    """A uWSGI with a master that serves an application at a port."""
    port = free_port()
    words = ["--master", *options, "--http-socket", f"127.0.0.1:{port}", "--wsgi-file", str(app)]
    with bare(*words, files=files or {}, ready=("127.0.0.1", port)) as server:
        yield server, port


@contextmanager
def running(setup: Setup) -> Iterator[Running]:
    ports = [free_port() for _ in range(setup.sockets)]
    kind = "--http" if setup.router else "--http-socket"
    sockets = [] if setup.emperor else [word for port in ports for word in (kind, f"127.0.0.1:{port}")]
    app = [] if setup.emperor else ["--wsgi-file", str(WAITING)]
    files = {"vassals/shop.ini": VASSAL % ports[0]} if setup.emperor else {}
    command = [*setup.options.split(), *sockets, *app, "--disable-logging"]
    with bare(*command, files=files, ready=("127.0.0.1", ports[0])) as server, socket.socket(socket.AF_UNIX) as backend:
        folder = server.directory / ("vassals" if setup.emperor else "")
        with ExitStack() as stack:
            backend.bind(str(folder / "backend"))
            backend.listen(100)
            Thread(target=accept, args=(backend,), daemon=True).start()
            pid = psutil.Process(server.pid).children()[0].pid if setup.emperor else server.pid
            stack.callback(backend.shutdown, socket.SHUT_RDWR)
            stack.callback((folder / "stop").touch)
            yield Running(server, pid, ports)


@contextmanager
def stuck(ports: Sequence[int], number: int) -> Iterator[None]:
    """Keeps so many requests waiting for a backend that never answers, until the block ends."""
    with ExitStack() as stack:
        for place in range(number):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", ports[place % len(ports)]), 20))
            client.sendall(b"GET /backend HTTP/1.0\r\n\r\n")
        yield


def look(host: Host, address: ProcessOfApp | SocketOfApp) -> tuple[Snapshot, HostFacts]:
    snapshot = asyncio.run(host.look(address, 20.0))
    return snapshot, host.read_facts(snapshot, None)


def seen(host: Host, address: ProcessOfApp | SocketOfApp) -> tuple[int, int | None, int | None, float]:
    """The workers, the threads that take requests, those of them that are busy, and those that wait for a backend."""
    try:
        snapshot, facts = look(host, address)
    except SourceError:  # it has no worker yet
        return 0, 0, 0, 0.0
    workers = [worker for worker in snapshot.workers if worker.pid]
    busy = [worker.busy_threads for worker in workers]
    waits = facts.waits.threads if facts.waits else {}
    return (
        len(workers),
        sum(worker.available_threads or 0 for worker in workers),
        None if None in busy else sum(busy),
        round(waits.get("backend", 0.0), 3),
    )


def see(host: Host, address: ProcessOfApp | SocketOfApp, wanted: tuple[int, int, int, float]) -> None:
    looks, end = [seen(host, address)], time.monotonic() + 20
    while wanted not in looks:
        assert time.monotonic() < end, Counter(looks)
        time.sleep(0.1)
        looks.append(seen(host, address))


@pytest.mark.parametrize("name", SETUPS)
def test_threads_are_exact(name):
    """At rest, half busy, and if all hang from before the first look on; and so is what they wait for."""
    setup = SETUPS[name]
    with running(setup) as uwsgi:
        for number in (0, setup.threads // 2, setup.threads):
            with stuck(uwsgi.ports, number):
                wanted = setup.workers, setup.threads, number, float(number)
                see(make_host(), ProcessOfApp(uwsgi.pid), wanted)


def test_a_reload_and_a_killed_worker_are_seen():
    with running(SETUPS["2x4"]) as uwsgi:
        host, address = make_host(), ProcessOfApp(uwsgi.pid)
        wait_until(lambda: seen(host, address)[:2] == (2, 8), what="both workers", pause=0.1)
        before, _ = look(host, address)
        os.kill(before.workers[0].pid, signal.SIGKILL)
        wait_until(lambda: look(host, address)[0].workers[0].pid not in (None, before.workers[0].pid), pause=0.1)
        after, _ = look(host, address)
        assert after.workers[1].pid == before.workers[1].pid
        assert len(after.workers) == 2
        assert after.generation == before.generation
        assert [worker.respawns for worker in after.workers] == [2, 1]
        os.kill(uwsgi.pid, signal.SIGHUP)
        wait_until(lambda: look(host, address)[0].generation > before.generation, pause=0.1)
        wait_until(lambda: seen(host, address)[:2] == (2, 8), what="the new workers", pause=0.1)
        assert [worker.respawns for worker in look(host, address)[0].workers] == [1, 1]


def test_paused_workers_are_known():
    with running(SETUPS["8x1"]) as uwsgi:
        host, address = make_host(), ProcessOfApp(uwsgi.pid)
        wait_until(lambda: seen(host, address)[0] == 8, what="the workers", pause=0.1)
        for state in ("pause", "idle"):
            os.kill(uwsgi.pid, signal.SIGTSTP)

            def states() -> set[tuple[str, int | None]]:
                return {(each.state, each.busy_threads) for each in look(host, address)[0].workers}

            wait_until(lambda state=state: states() == {(state, 0)}, what=state, pause=0.1)


_HANGS_LATER = """
import os, time

while os.path.exists("hang"):
    time.sleep(0.1)

def application(environ, start_response):
    return [b""]
"""


@as_root
def test_nobody_listens_in_this_network(tmp_path):
    program, address = shutil.copy("/bin/sleep", tmp_path / "uwsgi"), parse_address(f"app:127.0.0.1:{free_port()}")
    with subprocess.Popen(["unshare", "-n", program, "3"]) as elsewhere:
        wait_until(lambda: psutil.Process(elsewhere.pid).name() == "uwsgi", what="the program to begin")
        with pytest.raises(NotStartedError, match="another one, as in a container"):
            look(Host(), address)


def test_a_router_or_an_emperor_is_not_down():
    port = free_port()
    options = ["--master", "--http", f"127.0.0.1:{port}", "--http-to", "127.0.0.1:1"]
    with running(SETUPS["emperor"]) as emperor, bare(*options, ready=("127.0.0.1", port)) as router:
        for pid in (emperor.server.pid, router.pid):
            wait_until(lambda pid=pid: psutil.Process(pid).children(), what="a child")
            with pytest.raises(SourceError, match="a router or an emperor"):
                look(make_host(), ProcessOfApp(pid))


def test_an_emperor_that_waits_for_readers_of_its_stats():
    """It is no worker without a master. Its options say so, which are not known at the first look."""
    port, host = free_port(), make_host()
    options, files = ["--emperor", "{directory}/vassals", "--emperor-stats", f"127.0.0.1:{port}"], {"vassals/none": ""}
    with bare(*options, files=files, ready=("127.0.0.1", port)) as emperor:
        look(host, ProcessOfApp(emperor.pid))
        with pytest.raises(SourceError, match="a router or an emperor"):
            look(host, ProcessOfApp(emperor.pid))


def test_workers_that_hang_at_their_start_are_known():
    options = ["--processes", "2", "--lazy-apps", "--mule", "--touch-workers-reload", "{directory}/reload"]
    with serving(*options, app="app.py", files={"app.py": _HANGS_LATER, "reload": ""}) as (server, _):
        host, address = make_host(), ProcessOfApp(server.pid)
        wait_until(lambda: seen(host, address)[:2] == (2, 2), what="both workers", pause=0.1)
        before = {each.pid for each in look(host, address)[0].workers}
        (server.directory / "hang").touch()
        os.utime(server.directory / "reload", (2e9, 2e9))

        def starting() -> set[int | None]:
            return {each.pid for each in look(host, address)[0].workers if each.state == "starting"}

        wait_until(lambda: len(starting() - {None}) == 2, what="both to hang", pause=0.1)
        assert not starting() & before
        (server.directory / "hang").unlink()
        wait_until(lambda: {each.state for each in look(host, address)[0].workers} == {"idle"}, what="both", pause=0.1)


def test_what_only_uwsgi_counts_is_absent():
    """The verdict names the backend, no counter of uWSGI's is 0, and there is no series of a worker."""
    with running(SETUPS["2x4"]) as uwsgi, stuck(uwsgi.ports, 8):
        see(make_host(), ProcessOfApp(uwsgi.pid), (2, 8, 8, 8.0))
        clock = Clock()
        watch = Watch("shop", parse_address(f"pid:{uwsgi.pid}"), host=make_host(), clock=clock)
        watch.holds_findings = False

        async def sample() -> None:
            for _ in range(40):
                await watch.reader.read()
                if watch.history.seconds >= 3:
                    break
                await asyncio.sleep(0.2)

        asyncio.run(sample())
        document = build_server(watch, clock, 60.0, (60.0,))
        lines = [line for family in families([watch.observe([60.0])]) for line in family.samples]
    assert document.source == "kernel"
    assert document.flow.observed == pytest.approx(8, rel=0.03)
    assert (document.flow.requests, document.flow.throughput, document.flow.response_time) == (None, None, None)
    assert (document.window.respawns, document.window.exceptions, document.window.harakiris) == (None, None, None)
    assert {worker.window_requests for worker in document.workers} == {None}
    assert "wait" in document.verdict
    assert "backend" in document.verdict
    assert [line.parts[0] for line in document.lines if line.code == "source"] == ["the kernel alone"]
    assert ("uwsgi_source_info", "kernel") in {(line.name, line.labels.get("source")) for line in lines}
    assert not [line.name for line in lines if "worker_id" in line.labels or "requests" in line.name]


def test_an_application_socket_finds_its_uwsgi():
    with running(SETUPS["2x4"]) as uwsgi:
        address = parse_address(f"app:127.0.0.1:{uwsgi.ports[0]}")
        host = make_host()
        wait_until(lambda: seen(host, address)[:2] == (2, 8), what="both workers", pause=0.1)
        assert look(host, address)[0].pid == uwsgi.pid
    with pytest.raises(SourceError, match="nothing listens"):
        look(make_host(), address)


@pytest.fixture
def open_path() -> Iterator[Path]:
    with TemporaryDirectory() as directory:
        yield Path(directory)


@as_root
@over_ipv6
def test_another_user_takes_no_place(open_path):
    """One at the same port in IPv6 alone, or at the same path in other mounts, is not what clients reach."""
    port, path = free_port(), open_path / "run/web"
    path.parent.mkdir()
    for folder in (open_path, path.parent):
        folder.chmod(0o755)
    binary = open_path / "uwsgi"
    shutil.copy(os.path.realpath(uwsgi_binary()), binary)
    options = ["--http-socket", f"127.0.0.1:{port}", "--http-socket", str(path), "--wsgi-file", str(WAITING)]
    command = ["setpriv", "--reuid", "nobody", "--clear-groups", "unshare", "--user", "--map-root-user", "--mount"]
    command += ["sh", "-c", f'mount -t tmpfs none {path.parent} && exec "$0" "$@"', str(binary)]
    command += ["--master", "--die-on-term", "--http-socket", str(path)]
    places = [parse_address(f"app:127.0.0.1:{port}"), parse_address(f"app:{path}")]

    def sees(address: ProcessOfApp | SocketOfApp, pid: int) -> bool:
        return look(make_host(), address)[0].pid == pid

    with ExitStack() as stack:
        server = stack.enter_context(bare("--master", *options, ready=("127.0.0.1", port)))
        taken = stack.enter_context(socket.create_server(("::", port), family=socket.AF_INET6))
        command += ["--http-socket", f"fd://{taken.fileno()}"]
        other = stack.enter_context(subprocess.Popen(command, cwd="/", pass_fds=[taken.fileno()]))
        stack.callback(other.terminate)
        for pid in (server.pid, other.pid):
            host = make_host()
            wait_until(lambda host=host, pid=pid: seen(host, ProcessOfApp(pid))[0] == 1, what="a worker")
        assert [sees(place, server.pid) for place in places] == [True, True]
        os.kill(server.pid, signal.SIGTERM)
        psutil.Process(server.pid).wait(20)
        with pytest.raises(SourceError, match="nothing listens"):
            look(make_host(), places[1])


def test_a_cheap_server_without_a_worker():
    """The master of a `cheap` uWSGI waits itself: it is up, with workers in reserve, which the first request starts."""
    port = free_port()
    options = ["--master", "--processes", "2", "--threads", "2", "--cheap", "--http-socket", f"127.0.0.1:{port}"]
    with bare(*options, "--wsgi-file", str(WAITING), "--stats", "{directory}/stats") as server:
        host, address = make_host(), ProcessOfApp(server.pid)

        def reserve() -> list[object]:
            with suppress(SourceError):  # it does not listen yet
                return [(each.pid, each.threads) for each in look(host, address)[0].workers]
            return []

        wait_until(lambda: reserve() == [(None, 2), (None, 2)], what="two workers in reserve", pause=0.1)
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            wait_until(lambda: seen(host, address)[:2] == (2, 4), what="both workers", pause=0.1)


def test_a_reserve_that_is_edited_into_the_options_is_bounded():
    """A worker takes memory here: any user may write 999999999 into his file once his uWSGI runs."""
    files = {"shop.ini": "[uwsgi]\nprocesses = 2\ncheaper = 1\n"}
    with serving("--ini", "{directory}/shop.ini", files=files) as (server, _):
        (server.directory / "shop.ini").write_text("[uwsgi]\nprocesses = 5000\ncheaper = 1\n")
        host, address = make_host(), ProcessOfApp(server.pid)
        wait_until(lambda: seen(host, address)[0] == 1, what="the worker", pause=0.1)
        assert len(look(host, address)[0].workers) == MOST_CHILDREN


def test_the_path_of_a_socket_has_any_byte():
    """Its name is valid text, or the list of all servers could not be written; its queue is known."""
    with serving("--http-socket", "{directory}/caf\udce9") as (server, _):
        host, address = make_host(), ProcessOfApp(server.pid)
        wait_until(lambda: seen(host, address)[0] == 1, what="the worker", pause=0.1)
        snapshot, facts = look(host, address)
    name = f"{server.directory}/caf\\udce9"
    assert name in [each.name for each in snapshot.sockets]
    assert facts.backlogs[name].queue == 0


@pytest.mark.parametrize("stats", [[], ["--stats", "{directory}/stats"]])
def test_workers_that_never_wait(stats):
    """If workers end while they load, the server is down. Its master may wait for readers of its stats."""
    files = {"app.py": "import os\nos._exit(1)\n"}
    with serving("--lazy-apps", *stats, app="app.py", files=files) as (server, port):
        for address in (ProcessOfApp(server.pid), parse_address(f"app:127.0.0.1:{port}")):
            with pytest.raises(SourceError, match="is a uWSGI of which no worker waits") as error:
                look(make_host(), address)
            assert error.value.reason == "refused"


@as_root
def test_a_process_that_has_ended_hides_nothing():
    """Its files belong to root, until its parent notices its end."""

    def look_at_it() -> list[RequestSets]:
        with subprocess.Popen(["true"]) as ended:
            os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
            return find_sets([ended.pid])

    assert as_nobody(look_at_it) == [RequestSets()]


def test_a_look_leaves_no_trace():
    """Nobody connects, and files, log and descriptors are as before. uWSGI is stopped, so that nothing else acts."""
    with serving("--http-socket", "{directory}/web", "--logto", "{directory}/log") as (server, port):
        host, address = make_host(), ProcessOfApp(server.pid)
        wait_until(lambda: seen(host, address)[0] == 1, what="the worker", pause=0.1)
        pids = [server.pid, *(child.pid for child in psutil.Process(server.pid).children())]

        def trace() -> object:
            files = {path: os.stat(path) for path in (server.directory, *server.directory.iterdir())}
            times = {path: (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size) for path, stat in files.items()}
            descriptors = [dict(list_descriptors(pid, 1000)) for pid in pids]
            names, listeners = (
                (str(server.directory / "web"), f"127.0.0.1:{port}"),
                map(list_listeners, ("unix", "inet")),
            )
            return times, descriptors, [each.queue for family in listeners for each in family if each.name in names]

        with ExitStack() as stack:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
                stack.callback(os.kill, pid, signal.SIGCONT)
            before = trace()
            for place in (f"pid:{server.pid}", f"app:{server.directory}/web"):
                assert "UNKNOWN" not in run("check", place, "--seconds", "2").stdout
            assert before[2] == [0, 0]
            assert trace() == before


def test_an_old_request_over_tcp_has_its_age():
    with running(SETUPS["2x4"]) as uwsgi, stuck(uwsgi.ports, 2):

        def starts() -> list[float | None]:
            with suppress(SourceError):  # it has no worker yet
                snapshot, _ = look(make_host(), ProcessOfApp(uwsgi.pid))
                return [start for worker in snapshot.workers for start in worker.serving.values()]
            return []

        wait_until(lambda: len(starts()) == 2 and None not in starts(), what="the age of both", pause=0.1)


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_clients_that_leave_are_seen(kind):
    """The kernel knows whether a client has closed its connection; over TCP, the other way may still be open."""
    with serving("--threads", "4", "--http-socket", "{directory}/web") as (server, port), ExitStack() as stack:
        place = ("127.0.0.1", port) if kind == "tcp" else str(server.directory / "web")
        clients = [socket.socket(socket.AF_INET if kind == "tcp" else socket.AF_UNIX) for _ in range(3)]
        for client in clients:
            stack.enter_context(client).connect(place)
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        clients[2].shutdown(socket.SHUT_WR)
        host, address = make_host(), ProcessOfApp(server.pid)
        wait_until(lambda: seen(host, address)[2] == 3, what="the requests", seconds=20, pause=0.3)
        time.sleep(0.2)  # who closes at once may still wait
        clients[0].close()
        wait_until(lambda: look(make_host(), address)[1].clients == (3, 1), what="one to leave", pause=0.1)


@pytest.mark.skipif(not Path("/proc/self/sched").exists(), reason="this kernel is without CONFIG_SCHED_DEBUG")
def test_an_old_request_over_a_unix_socket_has_its_age():
    """The kernel knows since when a thread has not run. The application's own, asleep for longer, is no request."""
    app = (
        "import threading, time\n"
        "def sleep():\n    time.sleep(10000)\n"
        "threading.Thread(target=sleep, daemon=True).start()\n"
        "def application(environ, start_response):\n    sleep()\n"
    )
    options, files = ["--enable-threads", "--lazy-apps", "--http-socket", "{directory}/web"], {"app.py": app}
    served = serving(*options, "--threads", "3", app="app.py", files=files)
    with served as (server, _), socket.socket(socket.AF_UNIX) as client:
        wait_until(lambda: seen(make_host(), ProcessOfApp(server.pid))[1:3] == (3, 0), what="threads")
        client.connect(str(server.directory / "web"))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        sent = time.time()

        def starts() -> list[float | None]:
            snapshot, _ = look(make_host(), ProcessOfApp(server.pid))
            return [start for worker in snapshot.workers for start in worker.serving.values()]

        wait_until(lambda: starts() not in ([], [None]), what="the age of the request", pause=0.1)
        assert starts() == [pytest.approx(sent, abs=2)]


def test_a_short_request_has_no_age():
    """Connections are listed once a second: one that was seen once may have ended, and its age is unknown."""
    slot = seen_server._Slot(seen_server._Key(7, 1), 0.0, RequestSets(sets=(4, 5)), None, {11: 5.0, 12: 9.0}, 9.0)
    serving = seen_server._make_worker(1, slot, 2, "idle", 10.0).serving
    assert [start is None for start in serving.values()] == [False, True]


_LIKE_A_WORKER = """
import select, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
waiting = select.epoll()
waiting.register(listener, select.EPOLLIN)
pair = socket.socketpair()
for each in sys.argv[1:]:
    waiting.register(pair[0], select.EPOLLIN)
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("pair", [[], ["pair"]])
def test_another_server_is_no_uwsgi(pair):
    with subprocess.Popen(
        [sys.executable, "-c", _LIKE_A_WORKER, *pair], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        port = other.stdout.readline()
        with pytest.raises(SourceError, match="no uWSGI"):
            look(make_host(), ProcessOfApp(other.pid))
        with pytest.raises(SourceError, match="no uWSGI"):
            look(make_host(), parse_address(f"app:127.0.0.1:{port.strip()}"))
        other.kill()
    with pytest.raises(SourceError, match="no process"):
        look(make_host(), ProcessOfApp(other.pid))


@as_root
def test_what_another_user_may_not_see_is_refused():
    """With the reason. Who may not trace, as under Yama, sees threads, and busy ones by their connections."""
    with running(SETUPS["2x4"]) as uwsgi, stuck(uwsgi.ports, 3):
        address = ProcessOfApp(uwsgi.pid)
        wait_until(lambda: seen(make_host(), address)[2] == 3, what="3 requests", pause=0.2)

        def refused() -> str:
            try:
                look(Host(waits=WaitSetting(), asks=DIRECT), address)
            except SourceError as error:
                return error.reason
            return ""

        assert as_nobody(refused) == "permission"

        def without_trace() -> tuple[object, ...]:
            def refuse(_pid: int, _thread: int) -> bytes:
                raise PermissionError

            worker_threads.read_system_call = refuse
            host = Host(waits=WaitSetting(), asks=DIRECT)
            look(host, address)
            snapshot, facts = look(host, address)
            return (
                sum(each.threads for each in snapshot.workers),
                sum(each.busy_threads for each in snapshot.workers),
                bool(facts.waits.off),
            )

        pid = os.fork()
        if pid == 0:
            os._exit(0 if without_trace() == (8, 3, True) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_many_descriptors_do_not_hide_the_threads():
    app = "KEPT = [open('/dev/null') for _ in range(6000)]\ndef application(environ, start_response):\n    return []\n"
    with serving("--threads", "2", app="app.py", files={"app.py": app}) as (server, _):
        host = make_host()
        wait_until(lambda: seen(host, ProcessOfApp(server.pid))[:2] == (1, 2), what="the worker", pause=0.1)


_FORKS = """
import os, time

def application(environ, start_response):
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.1)
        os._exit(0)
    start_response("200 OK", [])
    return [b""]
"""


@pytest.mark.parametrize("options", ["--processes 2", "--master --processes 2"])
def test_a_fork_of_a_worker_is_no_worker(tmp_path, options):
    app, port = tmp_path / "app.py", free_port()
    app.write_text(_FORKS)
    command = [*options.split(), "--http-socket", f"127.0.0.1:{port}", "--wsgi-file", str(app)]
    with bare(*command, ready=("127.0.0.1", port)) as server:
        host, address = make_host(), ProcessOfApp(server.pid)
        wait_until(lambda: seen(host, address)[:2] == (2, 2), what="both workers", pause=0.1)
        workers = {worker.pid for worker in look(host, address)[0].workers}
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            family = psutil.Process(server.pid)
            wait_until(lambda: {each.pid for each in family.children(recursive=True)} - workers, what="the fork")
            fresh = make_host()
            wait_until(lambda: seen(fresh, address)[:3] == (2, 2, 0), what="two idle workers", pause=0.1)
        assert {worker.pid for worker in look(fresh, address)[0].workers} == workers
