"""Discovery beside processes of a hostile local user. Each part was an attack that succeeded."""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.discover import hostile_master
from tests.support.other_namespaces import NOBODY, as_root
from tests.support.real_uwsgi import uwsgi
from tools.environments import ROOT
from uwsgi_headroom.discover import find, report, trial
from uwsgi_headroom.discover.find import FoundMaster
from uwsgi_headroom.discover.launch import Ids, LaunchError, read_ids
from uwsgi_headroom.discover.report import run
from uwsgi_headroom.discover.trial import TrialError, is_roots, try_directory
from uwsgi_headroom.kernel import aside, procfs

pytestmark = pytest.mark.integration

ANY_USER = argparse.Namespace(user=None)
GIGABYTES = 2 << 30
MOST_MEGABYTES = 100

DISCOVER = """
import argparse, re, resource, sys
from uwsgi_headroom.discover.report import run

run(argparse.Namespace(user=None))
own = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print("PEAK", own + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Runs `discover`, and prints its memory, with that of its readers, in kB."""


@contextmanager
def hostile(**does: Any) -> Iterator[int]:
    command = [sys.executable, hostile_master.__file__, json.dumps(does)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(60)


def discovered() -> str:
    """What `discover` prints, with its memory. It never raises: the others want to be found."""
    environment = {"PYTHONPATH": str(ROOT / "exporter"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", DISCOVER], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    peak = re.search(r"PEAK (\d+)", done.stdout)
    assert int(peak[1]) < MOST_MEGABYTES << 10
    return " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "does",
    [{"claims": {"arg": GIGABYTES}}, {"claims": {"env": GIGABYTES}}, {"claims": {"arg": 0}}, {"epoll": (400, 400)}],
    ids=["command line", "environment", "empty command line", "epolls"],
)
def test_what_a_process_claims_costs_nothing(does):
    """A huge or missing command line or environment, or large epolls, neither cost memory nor end it."""
    with uwsgi() as good, hostile(**does) as pid:
        printed = discovered()
    assert f"master {good.pid} of user" in printed
    assert f"master {pid} of user" in printed


def test_what_has_no_end_is_left(tmp_path):
    """A long name, sockets whose documents do not end, a file that does not answer."""
    with uwsgi() as good, hostile(name="a-name-of-15-ch", claims={"arg": GIGABYTES}) as pid:
        printed = discovered()
    assert f"master {good.pid} of user" in printed
    assert str(pid) not in printed
    tmp_path.chmod(0o755)
    with uwsgi() as good, hostile(documents=(str(tmp_path), 40)) as pid:
        printed = discovered()
    assert f"master {good.pid} of user" in printed
    assert len(re.findall(rf"master {pid} of user", printed)) == find._MOST_SOCKETS
    os.mkfifo(tmp_path / "cmdline")
    with pytest.raises(TimeoutError, match="were not readable within 1 s"):
        find.ask_in_time(time.monotonic() + 60, procfs.read_begin, 100, str(tmp_path / "cmdline"))
    with pytest.raises(TimeoutError, match="took all the time that there is"):
        find.ask_in_time(time.monotonic() - 1, procfs.read_begin, 100, "/proc/self/cmdline")


def test_each_epoll_is_bounded(tmp_path, monkeypatch):
    (tmp_path / "fd").mkdir()
    (tmp_path / "fdinfo").mkdir()
    line = "tfd:        7 events:       19 data: 7  pos:0 ino:{:x} sdev:9\n"
    for descriptor in range(100):
        (tmp_path / "fd" / str(descriptor)).symlink_to("anon_inode:[eventpoll]")
        (tmp_path / "fdinfo" / str(descriptor)).write_text(line.format(descriptor))
    assert find.epoll_sockets(tmp_path) == set(range(find._MOST_EPOLLS))
    (tmp_path / "fdinfo" / "0").write_text("".join(map(line.format, range(1000, 21_000))))
    found = find.epoll_sockets(tmp_path)
    assert find._MOST_EPOLL_BYTES / 80 < len(found) < find._MOST_EPOLL_BYTES / 50


def test_a_master_that_hangs_is_named(monkeypatch, capsys):
    ask = aside.ask

    def answer(question: Callable[..., Any], *args: Any, seconds: float, **kwargs: Any) -> Any:
        if args and isinstance(args[0], FoundMaster) and args[0].pid in (hanging, broken):
            raise TimeoutError if args[0].pid == hanging else ZeroDivisionError("a fault")
        return ask(question, *args, seconds=seconds, **kwargs)

    with uwsgi() as good, hostile() as hanging, hostile() as broken:
        monkeypatch.setattr(aside, "ask", answer)
        run(ANY_USER)
    printed = " ".join(capsys.readouterr().out.split())
    assert f"master {good.pid} of user" in printed
    assert re.search(rf"Cannot be read: its files in /proc were not readable within 1 s[^C]* PID {hanging} of", printed)
    assert re.search(rf"could not be looked at \(ZeroDivisionError\('a fault'\)\) PID {broken} of", printed)


def test_a_fault_in_one_plan_is_its_own(monkeypatch, capsys):
    plan = report.plan

    def fail(launch, *args, **named):
        if launch.master.pid == first:
            raise ValueError("a fault")
        return plan(launch, *args, **named)

    monkeypatch.setattr(report, "plan", fail)
    with hostile() as first, hostile() as second:
        run(ANY_USER)
    printed = " ".join(capsys.readouterr().out.split())
    assert f"master {second} of user" in printed
    assert "No steps are proposed: it could not be looked at (ValueError('a fault'))." in printed


@as_root
def test_users_take_turns():
    """The masters of one user, however many, come after the first one of each other user."""
    many, one = (((uid,) * 3, (NOBODY,) * 3) for uid in (NOBODY - 7, NOBODY - 8))
    with hostile(ids=many) as first, hostile(ids=many) as second, hostile(ids=one) as good:
        order = [master.pid for master, _ in find.list_uwsgis()]
    assert order.index(good) < order.index(second)
    assert order.index(first) < order.index(second)


@as_root
def test_a_user_with_many_ids_is_one(tmp_path, monkeypatch):
    """Ids that a user may take in a namespace of its own (subuid(5)) are no further users with turns of their own."""
    monkeypatch.setattr(find, "_SUBORDINATE_IDS", tmp_path / "subuid")
    ids = [((NOBODY - number,) * 3, (NOBODY,) * 3) for number in (35, 36, 37)]
    with hostile(ids=ids[0]) as first, hostile(ids=ids[1]) as second, hostile(ids=ids[2]) as good:
        assert find.find_user(second) == str(NOBODY - 36)
        find._SUBORDINATE_IDS.write_text(f"other:1:2\nmallory:{NOBODY - 36}:2\ntorn")
        users = {master.pid: master.user for master, _ in find.list_uwsgis()}
    assert (users[first], users[second], users[good]) == ("mallory~", "mallory~", str(NOBODY - 37))
    assert [*users].index(good) < [*users].index(second)


@as_root
@pytest.mark.parametrize(
    "ids", [((NOBODY, 0, 0), (NOBODY,) * 3), ((NOBODY,) * 3, (NOBODY, 42, 42))], ids=["set-user-ID", "set-group-ID"]
)
def test_a_set_user_id_program_is_no_master(ids, capsys):
    """A process with another user's or group's rights gets no trial and no step: its user chose its words."""
    with hostile(ids=ids) as pid:
        with pytest.raises(LaunchError, match="differ, as those of a set-user-ID program do"):
            read_ids(pid)
        assert find.find_user(pid) == find.user_name(NOBODY)
        run(ANY_USER)
    printed = capsys.readouterr().out
    assert "No steps are proposed: its real, effective and saved users" in printed
    assert "usermod" not in printed


@as_root
def test_a_link_in_place_of_the_trials_socket(tmp_path, monkeypatch):
    """A link to a file of root's replaces the socket that was just bound: that file stays, and so does the socket."""
    victim, directory = tmp_path / "victim", tmp_path / "own"
    victim.write_text("root's")
    victim.chmod(0o600)
    for parent in (tmp_path, *tmp_path.parents[:3]):  # one more where test files run in parallel
        parent.chmod(parent.stat().st_mode | 0o055)
    directory.mkdir()
    os.chown(directory, NOBODY, NOBODY)
    before = victim.stat()

    class Exchanged(socket.socket):
        def bind(self, address):
            super().bind(address)
            os.rename(address, "kept")
            os.symlink(victim, address)

    monkeypatch.setattr(trial.socket, "socket", Exchanged)
    with pytest.raises(TrialError):
        try_directory(Ids(NOBODY, NOBODY), directory, "stats", Ids(NOBODY - 1, NOBODY - 1))
    after = victim.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert victim.read_text() == "root's"
    assert os.stat(directory / "kept").st_uid == NOBODY
    assert os.listdir(directory) == ["kept"]


@as_root
def test_the_trial_is_the_user():
    """The child of the trial has no id, no right and no descriptor of root's."""

    def describe():
        status = Path("/proc/self/status").read_text()
        fields = re.findall(r"^(?:Uid|Gid|Groups|CapEff|CapPrm):\s*(.*?)\s*$", status, re.MULTILINE)
        descriptors = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return f"{fields} { {os.readlink(name)[:5] for name in descriptors if os.path.lexists(name)} }"

    with open("/etc/shadow", "rb"):
        said = trial.ask_as(Ids(NOBODY, NOBODY, (1,)), describe)
    same = "\\t".join([str(NOBODY)] * 4)
    assert said == f"['{same}', '{same}', '1', '{'0' * 16}', '{'0' * 16}'] {{'pipe:'}}"


@as_root
def test_root_looks_at_nothing_that_others_may_exchange(tmp_path):
    """For root's uWSGI, the trial runs as root: only where the directory and all above it are root's alone."""
    root = Ids(0, 0)
    with pytest.raises(TrialError, match="others than root may write in it or above it"):
        try_directory(root, tmp_path, "stats", root)  # /tmp is everybody's
    assert is_roots(Path("/usr/lib"))
    assert is_roots(Path("/usr/lib/not/made/yet"))
    assert not is_roots(Path("/proc/self/cwd"))
    own = tmp_path / "own"
    own.mkdir()
    assert not is_roots(own)
