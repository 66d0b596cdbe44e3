"""The steps that turn on stats, followed to the letter on a real uWSGI; and what keeps discovery from proposing any."""

import argparse
import asyncio
import grp
import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from msgspec.structs import force_setattr, replace

from tests.support.other_namespaces import NOBODY, as_root
from tests.support.real_uwsgi import APP, Uwsgi, accepts, bare, free_port, wait_until
from uwsgi_headroom.discover import launch as launching
from uwsgi_headroom.discover import steps
from uwsgi_headroom.discover.find import FoundMaster, find_masters
from uwsgi_headroom.discover.launch import Ids, Launch, Unit, read_launch
from uwsgi_headroom.discover.report import run
from uwsgi_headroom.discover.steps import Plan, Scraper, find_harm, find_reader, plan, plan_reader
from uwsgi_headroom.discover.trial import TrialError, try_directory
from uwsgi_headroom.source import Unix

pytestmark = pytest.mark.integration

ME = Scraper("me", Ids(os.geteuid(), os.getegid(), tuple(os.getgroups())))
INI = "[uwsgi]\nmaster = true\nneed-app = true\nsocket = {directory}/app\nwsgi-file = " + f"{APP}\n"


LAUNCH = Launch(FoundMaster(os.getpid(), "me"), ME.ids, Path("/srv/shop.ini"), "")
VASSAL = FoundMaster(os.getpid(), "me", emperor=1)


def proposed(name: str = "shop", **changes: object) -> Plan:
    """The plan for a uWSGI whose file has nothing but its section."""
    return plan(replace(LAUNCH, text="[uwsgi]\n", **changes), name, ME, alike=1)


@pytest.fixture
def tmp_path():
    """A directory with a short path that other users may enter; of root's, nobody else may write above it."""
    with tempfile.TemporaryDirectory(prefix="headroom-", dir="/run" if os.geteuid() == 0 else None) as directory:
        os.chmod(directory, 0o755)
        yield Path(directory)


@pytest.fixture(autouse=True)
def _no_systemd(tmp_path, monkeypatch):
    """On this machine, directories for stats sockets are made below the test's own directory."""
    monkeypatch.setattr(steps, "SYSTEMD", tmp_path / "no systemd")
    monkeypatch.setattr(steps, "LASTING", tmp_path / "lasting")
    monkeypatch.setattr(steps, "OWN_RUNTIME", tmp_path / "own")
    monkeypatch.setattr(steps, "TMPFILES", tmp_path / "tmpfiles.d")
    monkeypatch.setenv("HOME", str(tmp_path))


def runs_systemd(monkeypatch, tmp_path, runtime):
    """Make it a machine with systemd, whose directories of applications are below the test's own."""
    monkeypatch.setattr(steps, "SYSTEMD", tmp_path)
    monkeypatch.setattr(steps, "RUNTIME", tmp_path / runtime)
    monkeypatch.setattr(steps.shutil, "which", lambda _name: "/usr/bin/systemd-tmpfiles")


@contextmanager
def without_stats(ini: str = INI, *options: str) -> Iterator[Uwsgi]:
    """Run a uWSGI from `shop.ini`, without stats, with its application on a UNIX socket and on a port."""
    port = free_port()
    words = options or ("--ini", "shop.ini")
    with bare(*words, f"--http-socket=127.0.0.1:{port}", files={"shop.ini": ini}, ready=("127.0.0.1", port)) as server:
        force_setattr(server, "http", port)
        wait_until(lambda: found(server).role == "master", what="the workers")
        yield server


def found(server: Uwsgi) -> FoundMaster:
    (master,) = [master for master in asyncio.run(find_masters()) if master.pid == server.pid]
    return master


def launched(server: Uwsgi) -> Launch:
    return read_launch(found(server), time.monotonic() + 60)


def planned(server: Uwsgi, reader: Scraper = ME) -> Plan:
    return plan(launched(server), "shop", reader, alike=1)


def follow(made: Plan) -> None:
    for step in made.steps:
        if step.heading.startswith("Add at the end of "):
            file = Path(step.heading.removeprefix("Add at the end of ").rstrip(":"))
            with file.open("a") as opened:
                opened.write("\n".join(step.lines) + "\n")
        elif step.lines:
            subprocess.run(["sh", "-ec", "\n".join(step.lines)], check=True)


def answer(server: Uwsgi) -> int:
    with urlopen(f"http://127.0.0.1:{server.http}/", timeout=60) as response:
        return int(response.status)


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "\n[other]\nx = 1\n",
        "\n# no line break at the end",
        "callable = application",
        "if-dir = /\nbuffer-size = 8192\n",
        "for = a\nenv = %(_)=1\n",
    ],
)
def test_the_steps_turn_on_stats_and_change_nothing_else(ending, tmp_path):
    with without_stats(INI.format(directory=tmp_path) + ending) as server:
        before = os.stat(tmp_path / "app").st_mode
        made = planned(server)
        follow(made)
        wait_until(lambda: found(server).address, what="the stats server")
        address = found(server).address
        assert isinstance(address, Unix)
        assert stat.S_IMODE(os.stat(address.path).st_mode) == 0o660
        assert os.stat(Path(address.path).parent).st_mode & 0o7 == 0
        wait_until(lambda: answer(server) == 200, what="the application")
        assert os.stat(tmp_path / "app").st_mode == before


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_two_names_of_one_file(link, tmp_path, capsys):
    """Two uWSGIs that load one file under two names get no line: the second would take the socket of the first."""
    first, second = tmp_path / "shop.ini", tmp_path / "blog.ini"
    first.write_text(INI.format(directory=tmp_path).replace("/app", "/%n"))
    link(first, second)
    with without_stats("", "--stats", f"{tmp_path}/own", "--ini", str(first)), without_stats("", "--ini", str(second)):
        run(argparse.Namespace(user=None))
        blocks = [" ".join(block.split()) for block in re.split(r"\n(?=\S)", capsys.readouterr().out)]
    # Others may run, too, for which it proposes a directory in this test's home.
    printed = " ".join(block for block in blocks if str(first) in block or str(second) in block)
    assert f"2 uWSGIs use {second}, under this name or another" in printed
    assert "if-dir" not in printed


@as_root
def test_a_directory_that_is_taken(tmp_path):
    """One that everybody may write, or one with a socket of a uWSGI that does not run now."""
    directory = tmp_path / "lasting" / "shop"
    directory.mkdir(parents=True)
    directory.chmod(0o1777)
    assert "every local user may write" in proposed().why_none
    directory.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(directory / "stats"))
    assert "may be of another uWSGI" in proposed().why_none


@as_root
def test_a_tmpfile_of_somebody_else(monkeypatch, tmp_path):
    """Another file in tmpfiles.d is never written over: a web server may need its mode."""
    (tmp_path / "tmpfiles.d").mkdir()
    (tmp_path / "app" / "shop").mkdir(parents=True)
    runs_systemd(monkeypatch, tmp_path, "app")
    kept = tmp_path / "tmpfiles.d" / "uwsgi-app-shop.conf"
    for text in (
        f"d {tmp_path}/app/shop 0755 root www-data -\n",
        f"d {tmp_path}/app/shop 2750 other root -\n",
        f"d {tmp_path}/app/shop 2750 root root -\nd /run/more 0755 root root -\n",
    ):
        kept.write_text(text)
        commands = proposed().steps[0].lines
        assert f"d {tmp_path}/app/shop-stats 2750 " in commands[0]
        assert str(kept) not in commands[0]
    (tmp_path / "app" / "shop-stats").mkdir()
    commands = proposed().steps[0].lines
    assert f"d {tmp_path}/own/shop 2750 " in commands[0]


def test_names_in_commands(monkeypatch, tmp_path):
    """Local users choose names of directories, and systemd escapes names of units: a shell takes them as they are."""
    monkeypatch.setattr(steps, "find_harm", lambda _launch: "")  # the process of the test is no uWSGI
    directory = tmp_path / "x; touch pwned #"
    directory.mkdir()
    (directory / "shop.ini").write_text("[uwsgi]\n")
    (directory / "link.ini").symlink_to("shop.ini")
    # An Emperor reloads a vassal when the file changes in its own directory: for a link, the link.
    assert "reloads it as soon as" in proposed(master=VASSAL, file=directory / "shop.ini").steps[1].heading
    (command,) = proposed(master=VASSAL, file=directory / "link.ini").steps[2].lines
    assert shlex.split(command) == ["touch", "-h", str(directory / "link.ini")]
    unit = Unit(r"uwsgi@srv-my\x2dapp.service", main_pid=os.getpid(), can_reload=True)
    (command,) = proposed(unit=unit).steps[2].lines
    assert shlex.split(command) == ["systemctl", "reload", unit.name]
    # Debian's unit, which `service uwsgi reload shop` reloads too, has the applications of all files.
    debian = Unit("uwsgi.service", main_pid=0, can_reload=True)
    made = proposed("apps-enabled", unit=debian, file=Path("/etc/uwsgi/apps-enabled/shop.ini"), is_debian=True)
    assert f"kill -HUP {LAUNCH.master.pid}" in [line for step in made.steps for line in step.lines]


def test_a_missing_directory_leaves_it_without_stats(tmp_path):
    with without_stats(INI.format(directory=tmp_path)) as server:
        made = planned(server)
        follow(made)
        wait_until(lambda: found(server).address, what="the stats server")
        path = Path(found(server).address.path)
        path.unlink()
        path.parent.rmdir()
        os.kill(server.pid, signal.SIGHUP)
        wait_until(lambda: b"chdir" in server.log.read_bytes() or not found(server).address, what="the reload")
        wait_until(lambda: accepts(("127.0.0.1", server.http)), what="the application")
        assert answer(server) == 200
        assert server.process.poll() is None


def test_the_command_line_gets_options():
    words = ("--master", "--need-app", "--wsgi-file", str(APP))
    with without_stats("", *words) as server:
        made = planned(server)
    *directory, options, restart, _ = made.steps
    assert "command line" in options.heading
    assert "do not reload it" in restart.heading
    follow(Plan(directory))
    with without_stats("", *words, *shlex.split(options.lines[0])) as server:
        wait_until(lambda: found(server).address, what="the stats server")


def test_lines_that_wait_for_a_reload_are_not_proposed_again(tmp_path):
    with without_stats(INI.format(directory=tmp_path)) as server:
        file, made = server.directory / "shop.ini", planned(server)
        text = file.read_text()
        file.write_text("\n".join((text, *made.steps[1].lines, "")))
        assert [step.lines for step in planned(server).steps] == [made.steps[0].lines, [f"kill -HUP {server.pid}"], ()]
        file.write_text(f"{text}[other]\nstats = {tmp_path}/own.stats\n")
        assert any("[uwsgi]" in step.lines for step in planned(server).steps)
        file.write_text(f"{text}[uwsgi]\nstats = {tmp_path}/own.stats\n")
        made = planned(server)
    assert made.steps == ()
    assert f"has `stats = {tmp_path}/own.stats` already, and uWSGI did not take it yet" in made.why_none
    assert not (tmp_path / "own.stats").exists()


def test_reasons_for_other_steps(tmp_path):
    with without_stats((INI + "auto-procname = true\n").format(directory=tmp_path)) as server:
        wait_until(lambda: b"master" in Path(f"/proc/{server.pid}/cmdline").read_bytes(), what="its new name")
        made = planned(server)
    assert made.steps == ()
    assert "auto-procname" in made.why_none
    with without_stats(INI.format(directory=tmp_path) + "exit-on-reload = true\n") as server:
        *_, restart, _ = planned(server).steps
        assert "do not reload it: it has `exit-on-reload`" in restart.heading
        assert restart.lines == []
        os.kill(server.pid, signal.SIGHUP)
        server.process.wait(60)
    with pytest.raises(TrialError, match="No such file"):
        try_directory(ME.ids, tmp_path / "missing", "stats", ME.ids)
    assert "longer than 102 bytes" in proposed("x" * 100).why_none


@as_root
@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("uid = me\nlogto = /var/log/shop\n", ""),
        ("uid = me\nbase = /srv\nchdir = %(base)/shop\n", ""),
        ("http = :80\n", ""),
        ("uid = me\nchown-socket = me\nhttp = :80\n", "`http`"),
        ("uid = me\nlogto = /var/log/shop\nlog-reopen = true\n", "`log-reopen`"),
        ("uid = me\nhook-master-start = safeexec:chmod 660 /run/shop/stats\n", ""),
        ("uid = me\nhook-master-start = chmod:/run/shop/stats 660\n", "`hook-master-start`"),
        ("uid = me\ncache2 = name=a,store=/var/a\n  include = more.ini\n", "`cache2`, `include`"),
    ],
)
def test_what_root_opened_at_the_start(lines, reason, tmp_path):
    """Where uWSGI has given up root, a reload is advised only with options that are known to survive one."""
    with without_stats(INI.format(directory=tmp_path)) as server:
        server.directory.chmod(0o755)
        launch = launched(server)
        text, ids = launch.text + lines, Ids(NOBODY, NOBODY)
        names = tuple(launching._list_option_names([], [], launch.file, text))
        launch = replace(launch, ids=ids, unit=None, text=text, option_names=names)
        harm = find_harm(launch)
        assert harm.endswith(f"with {reason}") if reason else harm == ""
        assert find_harm(replace(launch, ids=ME.ids)) == ""
        (server.directory / "shop.ini").chmod(0o600)
        assert "may not read" in find_harm(launch)


@pytest.mark.parametrize(
    ("launch", "alike", "reason"),
    [
        (replace(LAUNCH, file=None, why_no_file="its command line is not visible"), 1, "not visible"),
        (replace(LAUNCH, file=Path("/srv/shop.yml")), 1, "ini files only"),
        (LAUNCH, 2, "2 uWSGIs use /srv/shop.ini"),
        (replace(LAUNCH, confined="httpd_t"), 1, "httpd_t"),
        (replace(LAUNCH, has_own_files=True), 1, "RuntimeDirectory=uwsgi-stats-shop"),
        (replace(LAUNCH, master=FoundMaster(1, "me", emperor=2), why_no_reload="it would end"), 1, "as soon as"),
    ],
)
def test_no_lines_without_certainty(launch, alike, reason):
    made = plan(launch, "shop", ME, alike)
    assert made.steps == ()
    assert reason in made.why_none


def test_what_lies_at_the_path_is_never_touched(tmp_path):
    path = tmp_path / "stats"
    try_directory(ME.ids, tmp_path, "stats", ME.ids)
    path.write_text("precious")
    with pytest.raises(TrialError, match="would delete it"):
        try_directory(ME.ids, tmp_path, "stats", ME.ids)
    assert path.read_text() == "precious"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(TrialError, match="take its place"):
            try_directory(ME.ids, tmp_path, "stats", ME.ids)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    try_directory(ME.ids, tmp_path, "stats", ME.ids)
    assert [entry.name for entry in tmp_path.iterdir()] == ["stats"]


@as_root
def test_other_users(tmp_path):
    """The trial binds with uWSGI's ids, and asks the kernel with the exporter's, also when root runs it."""
    nobody, other = Ids(NOBODY, NOBODY), Ids(NOBODY - 1, NOBODY - 1)
    with pytest.raises(TrialError, match=r"cannot bind a socket in it: Permission denied") as refused:
        try_directory(nobody, tmp_path, "stats", nobody)
    assert not refused.value.reads
    directory = tmp_path / "own"
    directory.mkdir()
    os.chown(directory, NOBODY, NOBODY)
    directory.chmod(0o2750)
    try_directory(nobody, directory, "stats", nobody)
    try_directory(nobody, directory, "stats", Ids(NOBODY - 1, NOBODY - 1, (NOBODY,)))
    with pytest.raises(TrialError, match="Permission denied") as refused:
        try_directory(nobody, directory, "stats", other)
    assert refused.value.reads
    assert list(directory.iterdir()) == []


@as_root
def test_mounts_of_its_own():
    with subprocess.Popen(["unshare", "--mount", "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            assert launching._read(FoundMaster(process.pid, "root"), None).has_own_files
        finally:
            process.kill()
    assert not launching._read(FoundMaster(os.getpid(), "root"), None).has_own_files


def test_an_exporter_that_may_not_read_yet(monkeypatch, tmp_path):
    """If only the exporter cannot connect, a step puts it into uWSGI's group: its unit by a drop-in, else its user."""

    def refuse(*_):
        raise TrialError("Permission denied", reads=True)

    monkeypatch.setattr(steps, "try_directory", refuse)
    (tmp_path / "lasting" / "shop").mkdir(parents=True)
    (tmp_path / ".uwsgi" / "shop").mkdir(parents=True)
    group = grp.getgrgid(NOBODY).gr_name
    launch = replace(LAUNCH, text="[uwsgi]\n", ids=replace(ME.ids, gid=NOBODY))
    for reader, command in (
        (Scraper("prometheus", Ids(NOBODY - 1, 1)), f"usermod --append --groups {group} prometheus"),
        (Scraper("uwsgi-headroom.service", Ids(NOBODY - 1, 1), unit=True), f"SupplementaryGroups={group}"),
    ):
        made = plan(launch, "shop", reader, alike=1)
        assert any(command in line for step in made.steps for line in step.lines)
    launch = replace(launch, ids=replace(ME.ids, gid=65_429))
    made = plan(launch, "shop", Scraper("prometheus", Ids(NOBODY, NOBODY)), alike=1)
    assert made.steps == ()
    assert "its group 65429 has no name" in made.why_none


def test_who_reads(monkeypatch):
    monkeypatch.delenv("SUDO_USER", raising=False)
    assert find_reader(None).ids.uid == os.geteuid()
    monkeypatch.setenv("SUDO_USER", "nobody")
    assert find_reader(None).name == "nobody"
    assert find_reader("root").ids.uid == 0
    with pytest.raises(KeyError):
        find_reader("no-such-user")
    for name in ("no-such-user", ""):
        monkeypatch.setenv("SUDO_USER", name)
        monkeypatch.setattr(os, "geteuid", lambda: 54321)  # as in a container: a user without a name
        assert find_reader(None) == Scraper("54321", Ids(54321, os.getegid(), tuple(os.getgroups())))


@as_root
def test_a_directory_that_others_use_is_left_alone(monkeypatch, tmp_path):
    """Where systemd runs, it makes the directory at each boot; one that somebody else made keeps its mode."""
    (tmp_path / "tmpfiles.d").mkdir()
    runs_systemd(monkeypatch, tmp_path, "app")
    first = proposed().steps[0]
    assert first.lines[0].startswith(f"echo 'd {tmp_path}/app/shop 2750 root root -' > {tmp_path}/tmpfiles.d/")
    (tmp_path / "app" / "shop").mkdir(parents=True)
    assert f"{tmp_path}/app/shop-stats " in proposed().steps[0].lines[0]
    subprocess.run(["sh", "-ec", first.lines[0]], check=True)
    assert f"if-dir = {tmp_path}/app/shop" in proposed().steps[0].lines
    assert "Add at the end" in proposed().steps[0].heading
    monkeypatch.setattr(steps, "user_name", lambda _uid: r"DOM\nick")  # of a directory service
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("domain users", "x", gid, [])))
    assert f"d {tmp_path}/app/shop-stats 2750 0 0 -'" in proposed().steps[0].lines[0]


@as_root
def test_an_exporter_that_cannot_read_stats_that_are_on(tmp_path):
    """The group that lets it in is proposed, if uWSGI's user is in that group itself."""
    stranger, path = Scraper(r"DOM\prom", Ids(NOBODY - 1, NOBODY - 1)), tmp_path / "own.stats"
    with without_stats((INI + f"stats = {path}\n").format(directory=tmp_path)) as server:
        launch = launched(server)
        assert launch.master.address == Unix(str(path))
        os.chown(path, 0, NOBODY)
        path.chmod(0o660)
        for ids in (Ids(0, NOBODY), Ids(NOBODY, 0)):  # a group of the process, or of its user
            (step,) = plan_reader(launch := replace(launch, ids=ids), stranger).steps
            assert step.lines == [rf"usermod --append --groups {grp.getgrgid(NOBODY).gr_name} 'DOM\prom'"]
        for others in (0, grp.getgrnam("shadow").gr_gid):
            os.chown(path, 0, others)
            made = plan_reader(launch, stranger)
            assert (made.steps, "is root's, or none of uWSGI's user" in made.tried) == ((), True)
        path.chmod(0o600)
        assert "namei -l" in plan_reader(launch, stranger).tried
        path.chmod(0o666)
        assert plan_reader(launch, stranger) == Plan()


def test_a_guard_whose_directory_is_gone(tmp_path):
    """Guarded lines that have no effect, because their directory is missing, need the directory only."""
    with without_stats(INI.format(directory=tmp_path)) as server:
        directory, configure, *_ = planned(server).steps
        with (server.directory / "shop.ini").open("a") as file:
            file.write("\n".join(("", *configure.lines, "")))
        again = planned(server)
        assert [step.lines for step in again.steps[:2]] == [directory.lines, [f"kill -HUP {server.pid}"]]
        follow(again)
        wait_until(lambda: found(server).address, what="the stats server")


@as_root
def test_a_runtime_directory_of_others(monkeypatch, tmp_path):
    """If somebody else than root may write above the directory, another one is taken: systemd-tmpfiles refuses it."""
    runs_systemd(monkeypatch, tmp_path, "uwsgi/app")
    (tmp_path / "uwsgi").mkdir()
    assert f"d {tmp_path}/uwsgi/app/shop " in proposed().steps[0].lines[0]
    os.chown(tmp_path / "uwsgi", NOBODY, NOBODY)
    assert f"d {tmp_path}/own/shop " in proposed().steps[0].lines[0]
