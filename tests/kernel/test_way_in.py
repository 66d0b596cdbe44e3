"""The way in to a UNIX socket is known by the file at its path; this process stands in for uWSGI's master."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.real_uwsgi import Uwsgi, accepting, accepts, free_port, running, uwsgi, wait_for_workers, wait_until
from tests.support.simulated_server import Server
from uwsgi_headroom.kernel import way_in, web_servers
from uwsgi_headroom.kernel.as_user import Ids, ask_as
from uwsgi_headroom.kernel.aside import PausedError
from uwsgi_headroom.kernel.way_in import FIRST_SECONDS, LOOK_SECONDS, WaysInReader, find_unserved, read_ways
from uwsgi_headroom.stats import decode
from uwsgi_headroom.surroundings import Way, WaysIn

NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone may take another user's ids")


def listen(path: Path | str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def look(path: Path | str, *known: str) -> Way:
    (way,) = read_ways(os.getpid(), [(str(path), "uwsgi")], frozenset(known), came=True).ways
    return way


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Of a short name, since that of a UNIX socket has 107 bytes at most."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "a"


def test_a_path_that_leads_to_the_socket(path):
    """Also through a link, and by a name that is relative to the working directory."""
    (path.parent / "link").symlink_to(path.parent)
    for name in (path, f"{path.parent}/link/b", "c"):
        with listen(name):
            assert look(name).state == "clear"


def test_a_path_that_is_gone(path):
    """A relative one only if it led to the socket before, else uWSGI may have started in another directory."""
    with listen(path):
        path.unlink()
        assert look(path).state == "gone"
    with listen("b"):
        Path("b").unlink()
        assert look("b").state == "unknown"
        assert look("b", "b").state == "gone"


def test_another_socket_at_the_path(path):
    """It is known since when, and who listens there, if anybody does."""
    with listen(path):
        path.unlink()
        socket.socket(socket.AF_UNIX).bind(str(path))
        way = look(path)
        assert (way.state, way.nobody, way.rival) == ("replaced", True, None)
        assert abs(way.since - path.stat().st_ctime) < 1
        path.unlink()
        program = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); "
        command = [sys.executable, "-c", f"{program}print(flush=True); c=s.accept()[0]; c.recv(9)", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
            try:
                assert other.stdout
                other.stdout.readline()
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(path))
                    deadline = time.monotonic() + 30
                    while not (way := look(path)).rival or not way.rival.serves:
                        assert time.monotonic() < deadline
                assert (way.rival.pid, way.nobody) == (other.pid, False)
            finally:
                other.kill()


def test_a_path_that_became_a_link_names_no_rival(path):
    """Its owner can have it lead to any program's socket, which must not be stopped for that."""
    with listen(path), listen("of-a-database"):
        path.unlink()
        path.symlink_to("of-a-database")
        way = look(path)
        assert (way.state, way.nobody, way.rival) == ("replaced", False, None)


def test_where_web_servers_expect_a_uwsgi(path, monkeypatch):
    """Nobody listens there, or the path of the socket is gone: then it is known whose it was."""
    gone, stale, port = f"{path.parent}/gone", f"{path.parent}/stale", f"127.0.0.1:{free_port()}"
    monkeypatch.setattr(way_in, "find_web_servers", lambda: (1,))
    refused = Counter(
        {("nginx", each, "Connection refused"): 3 for each in (str(path), gone, stale, port, f"{path}-none")}
    )
    monkeypatch.setattr(way_in, "find_refused", lambda *_: refused)
    monkeypatch.setattr(way_in, "_STALE_SECONDS", 0.0)
    socket.socket(socket.AF_UNIX).bind(stale)
    with listen(path), listen(gone):
        os.unlink(gone)
        found = {(each.address, each.holder, each.number, each.is_down) for each in find_unserved()}
    addresses = {gone: os.getpid(), stale: 0, port: 0, f"{path}-none": 0}
    assert found == {(address, holder, 3, True) for address, holder in addresses.items()}
    monkeypatch.setattr(way_in, "_STALE_SECONDS", 60.0)  # a uWSGI in a container may have started again
    assert stale not in [each.address for each in find_unserved()]


@needs_root
def test_who_may_name_files_of_the_web_server(monkeypatch):
    """The command lines of root's processes and one's own: another user can call a process nginx."""
    asked = []
    monkeypatch.setattr(way_in, "find_lines", lambda _named, web_servers: asked.append(web_servers) or ())
    with subprocess.Popen(["sleep", "60"], user=NOBODY) as other:
        monkeypatch.setattr(way_in, "find_web_servers", lambda: (other.pid, os.getpid()))
        read_ways(os.getpid(), [], frozenset(), came=True, reads_files=True)
        other.kill()
    assert asked == [(os.getpid(),)]


def test_a_file_system_whose_numbers_differ(path, monkeypatch):
    """As of an overlay: a file on another device than that of the socket says nothing."""
    with listen(path):
        found = path.stat()
        monkeypatch.setattr(way_in, "_find_file", lambda _pid, _path: (found.st_ino + 1, found.st_dev + 1, 0.0))
        assert look(path).state == "unknown"
        monkeypatch.setattr(way_in, "_find_file", lambda _pid, _path: (found.st_ino + 1, found.st_dev, 0.0))
        assert look(path).state == "replaced"


def test_sockets_without_a_path(path):
    """An abstract socket, one of TCP, and one that this process does not hold, have no way to look at."""
    name = f"@{path}"
    with socket.socket(socket.AF_UNIX) as abstract, socket.create_server(("127.0.0.1", 0)) as tcp:
        abstract.bind(f"\0{path}")
        abstract.listen()
        names = [name, f"\\0{path}", f"127.0.0.1:{tcp.getsockname()[1]}", "/no/such"]
        assert read_ways(os.getpid(), [(name, "") for name in names], frozenset(), came=True) == WaysIn(came=True)


@needs_root
def test_what_keeps_a_user_from_connecting(tmp_path):
    """The kernel says whether it may: the first thing that refuses is named, the socket or a directory above it."""
    tmp_path.chmod(0o711)
    folder = Path("/tmp") / f"way-in-{os.getpid()}"
    folder.mkdir(mode=0o755)
    path = folder / "a"
    try:
        with listen(path):
            for mode, of_folder, said in ((0o600, 0o755, path), (0o666, 0o700, folder), (0o666, 0o711, None)):
                path.chmod(mode)
                folder.chmod(of_folder)
                answer = ask_as(Ids(NOBODY, NOBODY), lambda: way_in._refuse(path))
                assert answer.split("\0")[0] == (str(said) if said else "may")
            path.chmod(0o660)
            os.chown(path, 0, 12345)
            assert ask_as(Ids(NOBODY, NOBODY, (12345,)), lambda: way_in._refuse(path)) == "may"
            path.unlink()
            assert ask_as(Ids(NOBODY, NOBODY), lambda: way_in._refuse(path)) == "absent"
    finally:
        path.unlink(missing_ok=True)
        folder.rmdir()


@needs_root
def test_a_path_that_leads_elsewhere_opens_no_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(way_in, "_list_users", lambda: [(("nginx", Ids(NOBODY, NOBODY)), 0)])
    tmp_path.chmod(0o700)
    with listen(tmp_path / "a"):
        found = (tmp_path / "a").stat()
        for file, mode in (((found.st_ino, found.st_dev), "700"), ((found.st_ino + 1, found.st_dev), ""), (None, "")):
            refusal = way_in._ask_web_server(tmp_path / "a", file)
            assert refusal
            assert refusal.mode == mode


NGINX = """daemon off; worker_processes 1; pid {0}/pid; error_log {0}/error; user nobody nogroup; events {{}}
http {{ access_log off; client_body_temp_path {0}; uwsgi_temp_path {0}; proxy_temp_path {0}; fastcgi_temp_path {0};
scgi_temp_path {0}; server {{ listen unix:{0}/web; location / {{ uwsgi_pass unix:{1}; }} }} }}"""


@needs_root
@pytest.mark.integration
@pytest.mark.skipif(not shutil.which("nginx"), reason="there is no nginx")
def test_a_real_nginx():
    """Its workers are asked, also with mounts of its own; the file on its command line is read."""
    with tempfile.TemporaryDirectory(prefix="way-in-") as folder:
        os.chmod(folder, 0o755)
        Path(folder, "s").mkdir()
        path = f"{folder}/s/a"
        listener = listen(path)
        Path(folder, "nginx.conf").write_text(NGINX.format(folder, path))
        hidden = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none {folder}/s; exec "$@"', "sh"]
        command = ["nginx", "-c", f"{folder}/nginx.conf", "-p", folder]
        cases = (0o600, [], path, "600"), (0o666, [], "", ""), (0o666, hidden, path, "")
        for mode, wrapper, refusing, shown in cases:
            os.chmod(path, mode)
            with running([*wrapper, *command], lambda: accepts(f"{folder}/web"), "nginx"):
                web_servers._find_web_servers.cache_clear()
                wait_until(lambda: any(ids.uid for (_, ids), _ in way_in._list_users()), what="a worker")
                found = read_ways(os.getpid(), [(path, "uwsgi")], frozenset(), came=False, reads_files=2)
                refusal = found.ways[0].refusal
                assert refusal
                assert (refusal.user, refusal.path, refusal.mode) == ("nobody", refusing, shown)
                assert [(line.path, line.line) for line in found.lines] == [(f"{folder}/nginx.conf", 3)]
        listener.close()


def test_looks_are_seldom(monkeypatch):
    """Two show whether requests come; then they are ten seconds apart, and minutes after one without an answer."""
    asked = []

    def answer(_pid, _sockets, known, came, *_):
        asked.append((known, came))
        if len(asked) == 3:
            raise PausedError
        return WaysIn((Way("a", "/a", "clear"),))

    monkeypatch.setattr(way_in, "read_ways", answer)
    reader, server = WaysInReader(), Server(processes=1)
    for seconds in (0, 1, FIRST_SECONDS, LOOK_SECONDS, FIRST_SECONDS + LOOK_SECONDS, 2.5 * LOOK_SECONDS):
        found = reader.read(1, server.read(seconds).snapshot, (), seconds)
    assert asked == [(frozenset(), False), ({"a"}, False), ({"a"}, False)]
    assert found == WaysIn()


@pytest.mark.integration
def test_a_real_uwsgi():
    """The names of its document are those of the kernel; a reload keeps a socket without a path."""
    with uwsgi() as server:
        sockets = [(each.name, each.protocol) for each in decode(server.document()).sockets]
        assert sorted(protocol for _, protocol in sockets) == ["http", "uwsgi"]

        def look() -> list[tuple[str, str]]:
            return [(way.path, way.state) for way in read_ways(server.pid, sockets, frozenset(), came=True).ways]

        assert look() == [(server.socket, "clear")]
        Path(server.socket).unlink()
        urlopen(f"http://127.0.0.1:{server.http}/", timeout=20).close()  # a worker that starts would miss the signal
        os.kill(server.pid, signal.SIGHUP)
        wait_until(lambda: "(RE)spawned uWSGI master" in server.log.read_text(), what="the reload")
        wait_until(lambda: accepts(server.stats), what="stats")
        assert look() == [(server.socket, "gone")]


@pytest.mark.integration
def test_another_uwsgi_at_the_same_port():
    """It is known by its master, if its workers wait for requests there; only a look that reads files looks for it."""
    address = f"127.0.0.1:{free_port()}"
    with accepting("--reuse-port", "--socket", address) as old, accepting("--reuse-port", "--socket", address) as new:
        look = [(address, "uwsgi")], frozenset[str](), True
        (found,) = read_ways(new.pid, *look, 1, (address, "127.0.0.1:1", "/no/such")).sharers
        assert (found.name, found.pid, found.socket, found.is_older) == (address, old.pid, "port", True)
        assert read_ways(new.pid, *look, 1, (address, "127.0.0.1:1", "/no/such")).dead_ends == (
            "127.0.0.1:1",
            "/no/such",
        )
        assert read_ways(new.pid, *look) == WaysIn(came=True)


STARTING = """
import os, subprocess, time

def application(environ, start_response):
    how = environ["QUERY_STRING"]
    if how in ("sleep", "returns"):
        pid = os.fork()
        if not pid and how == "sleep":
            time.sleep(60)
            os._exit(0)
        time.sleep(1.0 * (pid > 0 and how == "returns"))  # who responds last crashes
        how = str(pid or os.getpid())
    elif how:
        how = str(subprocess.Popen(["sleep", "60"], close_fds=how == "closed").pid)
    start_response("200 OK", [])
    return [how.encode()]
"""


def start_child(server: Uwsgi, how: str, open_: ExitStack) -> int:
    """The process that a request starts; the client keeps its connection open."""
    client = open_.enter_context(socket.create_connection(("127.0.0.1", server.http), 20))
    client.sendall(f"GET /?{how} HTTP/1.0\r\n\r\n".encode())
    text = b""
    while not (pid := re.search(rb"\n\r\n(\d+)", text)):
        text += client.recv(4096)

    open_.callback(os.kill, int(pid[1]), signal.SIGKILL)
    return int(pid[1])


@pytest.mark.integration
@pytest.mark.parametrize("how", ["returns", "sleep", "inherited", "closed"])
def test_what_a_request_starts(tmp_path, how):
    """A forked child that goes on in uWSGI's code takes requests, and is no rival; one that does something else does
    not. A program keeps the client's connection if it inherits it."""
    app = tmp_path / "starting.py"
    app.write_text(STARTING)
    with uwsgi("--single-interpreter", app=app) as server, ExitStack() as open_:
        wait_for_workers(server)
        (worker,) = [each.pid for each in decode(server.document()).workers]
        name = f"127.0.0.1:{server.http}"

        def look() -> WaysIn:
            return read_ways(server.pid, [(name, "http")], frozenset(), True, 1, (), ((worker,), (name,)))

        child = start_child(server, how, open_)
        if how in ("returns", "inherited"):
            wait_until(lambda: look().sharers or look().keepers, what="what the child does")
        else:
            time.sleep(1.5)
        found = look()
        assert [(each.pid, each.socket) for each in found.sharers] == [(child, "fork")] * (how == "returns")
        assert [(each.program, each.connections) for each in found.keepers] == [("sleep", 1)] * (how == "inherited")


def test_a_socket_that_another_program_inherited(monkeypatch):
    """Its connections wait for nobody, unless a process of this program has it as well, or one serves a connection."""
    with socket.socket() as own, socket.socket() as older, socket.socket() as client:
        for each in (own, older):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.bind(own.getsockname() if each is older else ("127.0.0.1", 0))
        older.listen()
        client.connect(older.getsockname())
        own.listen()
        with subprocess.Popen(["sleep", "60"], pass_fds=[older.fileno()]) as child:
            held = frozenset({os.fstat(own.fileno()).st_ino})
            assert list(way_in._find_left(held, Path("/proc/self/comm").read_text().strip())) == []
            older.close()
            (found,) = way_in._find_left(held, "uwsgi")
            monkeypatch.setattr(way_in, "list_accepted", lambda pids, names: [{1: (0.0, False)} for _ in pids])
            assert list(way_in._find_left(held, "uwsgi")) == []
            child.kill()
        name = f"127.0.0.1:{own.getsockname()[1]}"
        assert (found.name, found.pid, found.socket, found.number) == (name, child.pid, "left", 1)


def test_names_of_workers(monkeypatch):
    """Since Python 3.14, a worker's first thread has a name of its own."""
    monkeypatch.setattr(way_in.procfs, "read_name", ["uwsgi", "uWSGIWorker1Cor", "sleep"].__getitem__)
    assert [way_in._is_of("uwsgi", pid) for pid in range(3)] == [True, True, False]
