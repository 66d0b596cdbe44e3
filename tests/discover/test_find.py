"""What `discover` finds, its document, and its report."""

import argparse
import asyncio
import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from tests.discover.test_hostile_processes import hostile
from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.other_namespaces import as_nobody, as_root
from tests.support.real_uwsgi import APP, accepts, bare, free_port, uwsgi, uwsgi_binary, wait_until
from uwsgi_headroom import discover
from uwsgi_headroom.arguments.commands import make_command_line
from uwsgi_headroom.discover import find, report
from uwsgi_headroom.discover.find import FoundMaster
from uwsgi_headroom.discover.report import choose_names, render_report
from uwsgi_headroom.discover.steps import list_options
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.kernel import aside
from uwsgi_headroom.kernel.processes import list_children
from uwsgi_headroom.source import Address, Tcp, Unix


def test_a_descriptor_that_closes_meanwhile_loses_no_other(tmp_path):
    """The epoll of a process that constantly opens and closes descriptors is still found."""
    (tmp_path / "fd").mkdir()
    (tmp_path / "fdinfo").mkdir()
    for descriptor in ("4", "5"):
        (tmp_path / "fd" / descriptor).symlink_to("anon_inode:[eventpoll]")
    (tmp_path / "fdinfo" / "5").write_text("tfd:        7 events:       19 data: 7  pos:0 ino:1f2 sdev:9\n")
    assert find.epoll_sockets(tmp_path) == {0x1F2}
    with pytest.raises(FileNotFoundError):
        find.epoll_sockets(tmp_path / "no such process")


@pytest.mark.integration
def test_a_listener_that_is_no_uwsgi_is_not_touched():
    connections: list[object] = []
    with bad_servers.serving("tcp", lambda connection, _: connections.append(connection)):
        asyncio.run(discover.find_masters())
    with bad_servers.answers("unix", document("minified")) as address:
        assert address not in " ".join(render_report(asyncio.run(discover.find_masters())))
    assert connections == []


@as_root
@pytest.mark.integration
def test_another_users_uwsgi_is_reported(monkeypatch):
    """A master whose sockets this user may not inspect is reported, with advice."""
    # The other user may be unable to start this Python, and so the child process.
    monkeypatch.setattr(aside, "ask", lambda question, *arguments, **_: question(*arguments))
    with uwsgi() as server:
        masters = as_nobody(lambda: {master.pid: master for master in asyncio.run(discover.find_masters())})
    assert "run it as uWSGI's user" in masters[server.pid].trouble
    assert masters[server.pid].address is None


@as_root
@pytest.mark.integration
def test_a_network_of_its_own(tmp_path):
    """The stats server of a uWSGI in another network namespace is found, unless its address means another one here."""
    ini = f"[uwsgi]\nmaster = true\nsocket = {tmp_path}/app\nwsgi-file = {APP}\nstats = "
    for address, is_found in ((f"{tmp_path}/stats", True), ("127.0.0.1:1717", False)):
        (tmp_path / "shop.ini").write_text(f"{ini}{address}\n")
        command = ["unshare", "--net", "sh", "-c", f"ip link set lo up; exec {uwsgi_binary()} {tmp_path}/shop.ini"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                wait_until(lambda pid=process.pid: masters_of(pid), what="the workers")
                (master,) = masters_of(process.pid)
            finally:
                process.terminate()
                process.kill()
        assert master.address == (Unix(address) if is_found else None)
        assert ("network namespace of its own" in master.trouble) == (not is_found)


SERVING = ("--master", "--processes", "1", "--wsgi-file", str(APP), "--socket", "app")


@pytest.mark.integration
def test_a_relative_path_is_that_of_its_master(monkeypatch):
    """A relative path of a stats socket is one in the working directory of its master, wherever discovery runs."""
    with bare(*SERVING, "--stats", "stats") as shop, bare(*SERVING, "--stats", "stats") as blog:
        monkeypatch.chdir(shop.directory)
        for server in (shop, blog):
            wait_until(lambda pid=server.pid: masters_of(pid), what="the worker")
            (master,) = masters_of(server.pid)
            assert (master.address, master.trouble) == (Unix(server.stats), "")
            assert master.what.endswith("1 worker of 1 thread")


@pytest.mark.integration
def test_a_socket_that_another_has_replaced():
    port = free_port()
    later = (*SERVING, "--http-socket", f"127.0.0.1:{port}", "--stats")
    with bare(*SERVING, "--stats", "{directory}/stats") as shop:
        wait_until(lambda: masters_of(shop.pid), what="the worker")
        with bare(*later, shop.stats, ready=("127.0.0.1", port)) as thief:
            wait_until(lambda: any(master.address for master in masters_of(thief.pid)), what="its stats")
            (master,) = masters_of(shop.pid)
            assert master.address is None
            assert f"the uWSGI with PID {thief.pid} answers at unix://{shop.stats}, so nobody can" in master.trouble


@pytest.mark.integration
def test_a_list_of_sockets_that_takes_too_long(monkeypatch):
    """A master without an address may then have stats; a list of sockets that fails says the same."""
    monkeypatch.setattr(aside, "ask", lambda question, *arguments, **_: question(*arguments))
    with bare("--master", "--socket", "{directory}/app", "--stats", "{directory}/stats") as server:
        uwsgis = [each for each in find.list_uwsgis() if each[0].pid == server.pid]
        monkeypatch.setattr(find, "EACH_SECONDS", 0.0)
        monkeypatch.setattr(find.sock_diag, "list_listeners", lambda *_, **__: [])
        looked_at = find._look_at(*uwsgis[0])
        monkeypatch.setattr(find, "ask_in_time", lambda _end, question, *rest, of: question(*rest))
        (cut,) = find.list_masters(uwsgis)
        assert looked_at[1]
        assert (cut.address, cut.trouble) == (None, find._CUT)


def masters_of(pid: int) -> list[FoundMaster]:
    masters = asyncio.run(discover.find_masters())
    return [master for master in masters if master.pid == pid and master.role == "master"]


def test_processes_that_are_hidden(monkeypatch):
    """With `hidepid`, a user sees no uWSGI of others: a report that there is none says so."""
    assert "hidepid" not in " ".join(render_report([]))

    def refuse(_path):
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", refuse)
    assert not find.sees_all_processes()
    assert "hidepid" in " ".join(render_report([]))
    assert "hidepid" in render_report([FoundMaster(1, "me", trouble="no")])[-1]


def found(monkeypatch: pytest.MonkeyPatch, *masters: FoundMaster, trusted: bool = False) -> list[Address | None]:
    async def find_masters() -> list[FoundMaster]:
        return list(masters)

    monkeypatch.setattr(discover, "find_masters", find_masters)
    return [server.address for server in discover.discover_servers(trusted=trusted)]


def test_other_users_are_found_later(monkeypatch):
    """With `--discover`, their servers share places, so an exporter begins with those of root and its own user."""
    masters = [FoundMaster(at, user, address=Unix(f"/{user}")) for at, user in enumerate(("mallory", "root", "root~"))]
    assert found(monkeypatch, *masters, trusted=True) == [Unix("/root")]
    assert len(found(monkeypatch, *masters)) == len(masters)
    with pytest.raises(HeadroomError):
        found(monkeypatch, masters[0], trusted=True)


def test_a_master_that_does_not_answer_is_watched(monkeypatch):
    """What is silent beside a master's stats is an application."""
    answers = FoundMaster(1, "root", address=Unix("/a"), what="uWSGI")
    silent = FoundMaster(2, "root", address=Unix("/b"), trouble="no answer", silent=True)
    refused = FoundMaster(3, "root", address=Unix("/c"), trouble="permission denied")
    assert found(monkeypatch, answers, silent, refused) == [Unix("/a"), Unix("/b")]
    with pytest.raises(HeadroomError, match="none was found") as caught:
        found(monkeypatch, refused)
    assert "permission denied" in "\n".join(caught.value.details)
    answers = FoundMaster(1, "root", address=Unix("/a"), what="uWSGI")
    silent = FoundMaster(1, "root", address=Unix("/b"), trouble="no answer", silent=True)
    assert found(monkeypatch, answers, silent) == [Unix("/a")]
    assert asyncio.run(find._read_once(answers, time.monotonic())).trouble == find.NO_TIME


@pytest.mark.integration
def test_a_vassal_is_one_with_its_file_and_directory():
    ini = "[uwsgi]\nmaster = true\nstats = {directory}/shop.stats\nneed-app = false\nsocket = {directory}/shop.sock\n"
    options = ("--emperor", "{directory}/vassals", "--emperor-stats-server", "{directory}/stats")
    with bare(*options, files={"vassals/empty": ""}) as emperor:
        path = emperor.directory / "vassals" / "shop.ini"
        path.write_text(ini.format(directory=emperor.directory))
        wait_until(lambda: accepts(str(emperor.directory / "shop.stats")), what="the vassal")
        everything = asyncio.run(discover.find_masters())
        masters = [each for each in everything if each.address == Unix(str(emperor.directory / "shop.stats"))]
        wait_until(lambda: b'"vassals"' in emperor.document())
    (vassal,) = masters
    assert vassal.emperor == emperor.pid
    emperors = [each.pid for each in everything if each.role == "emperor" and each.pid in (vassal.pid, emperor.pid)]
    assert emperors == [emperor.pid]
    assert (vassal.configuration, vassal.directory) == ("shop.ini", str(emperor.directory / "vassals"))
    assert render_report(masters)[0].startswith("shop: uWSGI ")


VASSAL = "[uwsgi]\nmaster = true\nneed-app = false\n"


@pytest.mark.integration
def test_an_emperor_that_waits_for_requests():
    """It serves none itself, nor does its own master; no connection of this program starts a vassal."""
    options = ("--master", "--emperor", "{directory}/vassals", "--emperor-stats", "{directory}/stats")
    files = {"vassals/blog.ini": f"{VASSAL}socket = blog.sock\n"}
    with bare(*options, "--emperor-on-demand-extension", ".socket", files=files) as emperor:
        vassal = emperor.directory / "vassals" / "shop.ini"
        vassal.with_suffix(".ini.socket").write_text(f"{emperor.directory}/app")
        vassal.write_text(VASSAL)
        wait_until(lambda: b'"on_demand":"/' in emperor.document(), what="the vassal on demand")
        wait_until(lambda: b'"ready":1' in emperor.document(), what="the other one")
        masters = asyncio.run(discover.find_masters())
        assert b'"pid":-1' in emperor.document()
        emperors = {emperor.pid, *list_children(emperor.pid)}
    assert Unix(emperor.stats) in [master.address for master in masters]
    assert len(emperors) == 2
    assert {master.role for master in masters if master.pid in emperors} == {"emperor"}


@pytest.mark.integration
def test_an_emperor_whose_vassals_rest_is_read_by_its_stats():
    options = ("--emperor", "{directory}/vassals", "--emperor-stats", "{directory}/stats")
    with bare(*options, files={"vassals/none": ""}) as emperor:
        wait_until(lambda: b'"vassals"' in emperor.document(), what="its stats")
        (master,) = [each for each in asyncio.run(discover.find_masters()) if each.pid == emperor.pid]
    assert (master.role, master.address, master.trouble) == ("emperor", Unix(emperor.stats), "")


@pytest.mark.integration
def test_workers_are_no_masters():
    with uwsgi("--processes", "3") as server:
        found = asyncio.run(discover.find_masters())
    masters = [master for master in found if str(master.address).endswith(server.stats)]
    assert [master.pid for master in masters] == [server.pid]
    assert re.fullmatch(r"uWSGI [\d.]+\S*, 3 workers of 1 thread", masters[0].what)


@pytest.mark.integration
def test_without_a_master_there_are_no_stats():
    """A uWSGI that runs as a single process is reported, with the option that it lacks."""
    command = [uwsgi_binary(), "--http-socket", f"127.0.0.1:{free_port()}", "--wsgi-file", str(APP), "--need-app"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            wait_until(
                lambda: [master for master in asyncio.run(discover.find_masters()) if master.pid == process.pid],
                what="it to be seen",
            )
            (master,) = [master for master in asyncio.run(discover.find_masters()) if master.pid == process.pid]
            assert (master.address, master.role) == (None, "process")
            assert "master = true" in "\n".join(render_report([master]))
        finally:
            process.kill()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("uwsgi", True),
        ("uwsgi_python3", True),
        ("uWSGIWorker12Co", True),  # the first worker of a uWSGI without a master, with Python 3.14
        ("uwsgi-headroom", False),
        ("uwsgi_exporter", False),
    ],
)
def test_a_process_that_only_has_the_name(name, taken):
    with hostile(name=name) as pid:
        masters = {master.pid: master for master in asyncio.run(discover.find_masters())}
    assert (pid in masters) == taken
    assert not taken or masters[pid].address is None


@pytest.mark.integration
def test_workers_of_python_3_14(tmp_path):
    app = tmp_path / "app.py"
    name = "ctypes.CDLL(None).prctl(15, b'uWSGIWorker%dCore0' % uwsgi.worker_id(), 0, 0, 0)"
    app.write_text(f"import ctypes, uwsgi\n{name}\ndef application(environment, start_response): return []\n")
    with uwsgi("--processes", "2", "--lazy-apps", app=app) as server:

        def names() -> list[str]:
            return [Path(f"/proc/{pid}/comm").read_text()[:11] for pid in list_children(server.pid)]

        wait_until(lambda: names() == ["uWSGIWorker"] * 2, what="the names of the workers")
        assert server.pid in {master.pid for master in asyncio.run(discover.find_masters()) if master.address}


ROOT = Path(__file__).resolve().parents[2]
ADVICE = ("README.md", "SECURITY.md", "docs", "deploy", "alerts")
EXPLAINS = {f"docs/{name}.md" for name in ("findings", "security", "settings", "turn-on-stats", "upgrading")}
"""The pages that say what `chmod-socket` does; findings speak of the application's socket."""


def documents() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", *ADVICE], cwd=ROOT, capture_output=True, text=True, check=True)
    endings = (".md", ".yml", ".yaml", ".service", ".txt", ".Debian")
    return [name for name in listed.stdout.split("\0") if name.endswith(endings) and (ROOT / name).is_file()]


@pytest.mark.parametrize("name", documents())
def test_stats_lines_are_those_that_were_tried(name):
    """A `stats` line stands within its guard, and no page advises `chmod-socket` or an address that all can read."""
    lines = [line.strip() for line in (ROOT / name).read_text(errors="replace").splitlines()]
    assert name in EXPLAINS or not [line for line in lines if "chmod-socket" in line]
    for number, line in enumerate(lines):
        if match := re.fullmatch(r"stats = (/\S+|DIRECTORY)/\w+", line):
            expected = [f"{key} = {value}".rstrip() for key, value in list_options(Path(match[1]))]
            assert lines[number - 1 : number + 3] == expected
        else:
            assert not re.fullmatch(r"stats = \S+", line), line


PLACE = {"configuration": "/etc/uwsgi/shop.ini", "directory": "/srv/shop", "emperor": 9}
WHAT = "uWSGI 2.0.31, 4 workers of 8 threads"
SHOP = FoundMaster(10, "www-data", address=Unix("/run/shop.stats"), what=WHAT, **PLACE)


def test_a_reason_is_given_once_and_one_command_serves_all():
    assert "uwsgi-headroom --stats tcp://HOST:PORT" in render_report([])[0]
    masters = [FoundMaster(pid, user, trouble="not allowed") for user in ("a", "b") for pid in range(1, 13)]
    assert render_report(masters) == [
        "Cannot be read: not allowed",
        "  PIDs 1, 2, 3, 4, 5, 6, 7, 8 and 4 more of user a",
        "  PIDs 1, 2, 3, 4, 5, 6, 7, 8 and 4 more of user b",
    ]
    masters = [SHOP, FoundMaster(20, "root", address=Unix("/run/it's here/stats"), directory="/srv/wiki")]
    lines = render_report(masters)
    command = " ".join(line.removesuffix("\\") for line in lines[lines.index("To watch them all:") + 1 :])
    expected = ["shop=unix:///run/shop.stats", "wiki=unix:///run/it's here/stats"]
    assert make_command_line().parse(shlex.split(command)[1:]).stats == expected


def test_each_finding_says_what_to_do():
    """Readable masters come with the command, unreadable ones with the reason, others with the missing option."""
    masters = [
        SHOP,
        FoundMaster(11, "www-data", address=Unix("/run/api.stats"), trouble="permission denied: run as uWSGI's user"),
        FoundMaster(12, "nobody", trouble="this user may not inspect its sockets"),
        FoundMaster(13, "root", configuration="mute.ini"),
    ]
    assert render_report(masters) == [
        "shop: uWSGI 2.0.31, 4 workers of 8 threads",
        "  master 10 of user www-data, /etc/uwsgi/shop.ini, in /srv/shop, vassal of 9",
        "  unix:///run/shop.stats",
        "",
        "Cannot be read: permission denied: run as uWSGI's user",
        "  master 11 of user www-data: unix:///run/api.stats",
        "",
        "Cannot be read: this user may not inspect its sockets",
        "  PID 12 of user nobody",
        "",
        "uWSGI without a stats server; `uwsgi-headroom discover` prints the steps that turn it on:",
        "  master 13 of user root, mute.ini",
        "",
        "To watch it:",
        "  uwsgi-headroom --stats shop=unix:///run/shop.stats",
    ]


def test_names_differ():
    def master(address: Unix | Tcp, configuration: str = "", directory: str = "") -> FoundMaster:
        return FoundMaster(1, "root", address=address, configuration=configuration, directory=directory)

    assert choose_names(
        [
            master(Unix("/run/shop.stats"), directory="/srv/old-shop"),
            master(Unix("/run/a/stats"), "shop.ini"),
            master(Unix("/run/b/stats"), "uwsgi.ini", "/srv/blog"),
            master(Tcp("127.0.0.1", 1717), "uwsgi.ini", "/srv/app"),
            master(Unix("/run/c/api.stats"), "x.ini"),
            master(Unix("/run/d/api.stats"), "x.ini"),
        ]
    ) == ["old-shop", "shop", "b", "tcp-127.0.0.1-1717", "unix-run-c-api.stats", "unix-run-d-api.stats"]


def test_names_of_others_do_nothing_to_a_terminal(capsys, monkeypatch):
    """No escape sequence or line break in names of users, versions, files or sockets is printed."""
    evil = "\x1b]0;pwned\x07\nTo watch it:\u202e\x9b2J"

    async def find_masters():
        return [FoundMaster(10, f"eve{evil}", address=Unix(f"/run/{evil}"), what=evil, configuration=f"{evil}.ini")]

    monkeypatch.setattr(report, "find_masters", find_masters)
    assert report.run(argparse.Namespace(user=None)) == 0
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    assert out.count("\nTo watch it:\n") == 1
    assert "user eve\\x1b]0;pwned\\x07\\nTo watch it:" in out
