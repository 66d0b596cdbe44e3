"""What discovery says of what it found; that it finds it is in the end-to-end tests."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.other_namespaces import as_nobody, as_root
from tests.support.real_uwsgi import APP, free_port, uwsgi, uwsgi_binary, wait_until
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch import discover
from uwsgi_headroom.watch.discover import FoundMaster


def test_nothing_found() -> None:
    """Where no uWSGI runs it says how to name one that runs elsewhere."""
    assert "uwsgi-headroom --stats tcp://HOST:PORT" in discover.render_report([])[0]


def test_each_finding_says_what_to_do() -> None:
    """What can be read comes with its command, what cannot with the reason, and what has no stats with the option."""
    masters = [
        FoundMaster(10, "www-data", address=Unix("/run/shop.stats"), what="uWSGI 2.0.31, 4 workers of 8 threads"),
        FoundMaster(11, "www-data", address=Unix("/run/api.stats"), trouble="permission denied: run as uWSGI's user"),
        FoundMaster(12, "nobody", trouble="this user may not look at its sockets"),
        FoundMaster(13, "root"),
    ]
    assert discover.render_report(masters) == [
        "uWSGI master 10 of user www-data: uWSGI 2.0.31, 4 workers of 8 threads",
        "  uwsgi-headroom --stats unix:///run/shop.stats",
        "uWSGI master 11 of user www-data",
        "  unix:///run/api.stats: permission denied: run as uWSGI's user",
        "uWSGI master 12 of user nobody",
        "  stats server: this user may not look at its sockets",
        "uWSGI master 13 of user root",
        "  It has no stats server. Turn it on in its configuration, and reload it:",
        "      stats = /run/uwsgi/NAME.stats",
    ]


def test_names_of_others_do_nothing_to_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users, versions and sockets are named by others: no escape sequence and no line of theirs is printed."""

    async def find_masters() -> list[FoundMaster]:
        forged = "0 workers\nuWSGI master 1 of user root: \u202eforged\x9b2J"
        return [FoundMaster(10, "eve\x1b]0;pwned\x07", address=Unix("/run/\u2066a\n.stats"), what=forged)]

    monkeypatch.setattr(discover, "find_masters", find_masters)
    assert discover.run() == 0
    assert capsys.readouterr().out == (
        "uWSGI master 10 of user eve\\x1b]0;pwned\\x07: 0 workers\\nuWSGI master 1 of user root: "
        "\\u202eforged\\x9b2J\n"
        "  uwsgi-headroom --stats unix:///run/\\u2066a\\n.stats\n"
    )


def test_a_descriptor_that_closes_meanwhile_loses_no_other(tmp_path: Path) -> None:
    """Of a process that opens and closes descriptors all the time, the epoll is still found."""
    (tmp_path / "4").symlink_to(tmp_path / "closed meanwhile")
    (tmp_path / "5").write_text("tfd:        7 events:       19 data: 7  pos:0 ino:1f2 sdev:9\n")
    assert discover._epoll_inodes(tmp_path) == {0x1F2}
    with pytest.raises(FileNotFoundError):
        discover._epoll_inodes(tmp_path / "no such process")


@pytest.mark.integration
def test_a_listener_that_is_no_uwsgi_is_not_touched() -> None:
    """What listens but is no uWSGI master is never asked."""
    connections: list[object] = []
    with bad_servers.serving("tcp", lambda connection, _: connections.append(connection)):
        asyncio.run(discover.find_masters())
    with bad_servers.answers("unix", document("minified")) as address:
        assert address not in " ".join(discover.render_report(asyncio.run(discover.find_masters())))
    assert connections == []


@as_root
@pytest.mark.integration
def test_another_users_uwsgi_is_told_of() -> None:
    """A master whose sockets this user may not look at is named, with what to do."""
    with uwsgi() as server:
        masters = as_nobody(lambda: {master.pid: master for master in asyncio.run(discover.find_masters())})
    assert "run as that user or as root" in masters[server.pid].trouble
    assert masters[server.pid].address is None


@pytest.mark.integration
def test_workers_are_no_masters() -> None:
    """A server with several workers is found once."""
    with uwsgi("--processes", "3") as server:
        masters = [
            master for master in asyncio.run(discover.find_masters()) if str(master.address).endswith(server.stats)
        ]
    assert [master.pid for master in masters] == [server.pid]
    assert re.fullmatch(r"uWSGI [\d.]+\S*, 3 workers of 1 threads", masters[0].what)


@pytest.mark.integration
def test_without_a_master_there_are_no_stats() -> None:
    """A uWSGI that runs as one process is named, with the option that it lacks."""
    command = [uwsgi_binary(), "--http-socket", f"127.0.0.1:{free_port()}", "--wsgi-file", str(APP), "--need-app"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            wait_until(
                lambda: [master for master in asyncio.run(discover.find_masters()) if master.pid == process.pid],
                what="it to be seen",
            )
            (master,) = [master for master in asyncio.run(discover.find_masters()) if master.pid == process.pid]
            assert (master.address, master.role) == (None, "process")
            assert "master = true" in "\n".join(discover.render_report([master]))
        finally:
            process.kill()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "taken"), [("uwsgi", True), ("uwsgi_python3", True), ("uwsgi-headroom", False), ("uwsgi_exporter", False)]
)
def test_names_of_uwsgi(name: str, taken: bool) -> None:
    """uWSGI is known by its names; what merely begins so, this exporter for one, is not taken for it."""
    code = f"import ctypes, time; ctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert (process.pid in {master.pid for master in asyncio.run(discover.find_masters())}) == taken
        finally:
            process.kill()


@pytest.mark.integration
def test_a_process_that_only_has_the_name() -> None:
    """A process called uwsgi that is none, with a child called so too, is passed over without harm."""
    code = (
        "import ctypes, os, time; ctypes.CDLL(None).prctl(15, b'uwsgi', 0, 0, 0); os.fork(); "
        "print(os.getpid(), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            masters = {master.pid: master for master in asyncio.run(discover.find_masters())}
            assert masters[process.pid].address is None
        finally:
            os.killpg(process.pid, signal.SIGKILL)
