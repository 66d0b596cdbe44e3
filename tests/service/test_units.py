"""The shipped units: what systemd thinks of them, and what must or must not be in them."""

import configparser
import contextlib
import os
import re
import secrets
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.service.service_manager import manager
from tests.support.scripted_watch import ScriptedWatch, replayed
from uwsgi_headroom.config.defaults import LISTEN_ADDRESS
from uwsgi_headroom.errors import ConfigError, SourceError
from uwsgi_headroom.service.systemd import (
    LEAST_WATCHDOG_SECONDS,
    Notifier,
    ServiceManager,
    describe_servers,
    take_sockets,
    watchdog_seconds,
)

FOLDER = Path(__file__).parents[2] / "deploy/systemd"
PROGRAM = "/opt/uwsgi-headroom/bin/uwsgi-headroom"

with_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="this machine has no systemd-analyze")


class _Repeated(dict):
    """Keeps every value of a repeated key: configparser sets the value of each line as a list."""

    def __setitem__(self, key, value):
        if isinstance(value, list) and key in self:
            self[key].extend(value)
        else:
            super().__setitem__(key, value)


def service():
    """The settings of the service; a repeated key has a line for each value."""
    parser = configparser.RawConfigParser(strict=False, dict_type=_Repeated)
    parser.optionxform = str
    parser.read(FOLDER / "uwsgi-headroom.service")
    return parser["Service"]


def test_what_a_unit_sets():
    assert service()["Type"] == "notify"
    assert service()["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert float(service()["WatchdogSec"]) >= 2 * LEAST_WATCHDOG_SECONDS
    assert service()["ExecStart"].startswith(f"{PROGRAM} --config ")
    assert service()["LimitCORE"] == "0"
    assert f"\nListenStream={LISTEN_ADDRESS}\n" in (FOLDER / "uwsgi-headroom.socket").read_text()
    filters = service()["SystemCallFilter"].splitlines()
    refused = next(number for number, calls in enumerate(filters) if calls.startswith("~") and "@resources" in calls)
    assert "setpriority" in filters[refused + 1 :]
    text = (FOLDER / "README.md").read_text()
    assert service()["DynamicUser"] == service()["ProtectHome"] == "yes"
    assert all(f"`{path}`" in text for path in ("/tmp", "/var/tmp", "/home", "/root", "/run/user"))


@pytest.mark.parametrize("setting", ["ProtectProc", "ProcSubset", "PrivateNetwork", "PrivateUsers", "CPUQuota"])
def test_settings_that_break_figures_are_not_set(setting):
    """Each of these has its reason in the unit, and is not set."""
    assert setting not in service()
    assert f"# * {setting}=" in (FOLDER / "uwsgi-headroom.service").read_text().replace(" and ", "\n# * ")


@with_systemd
def test_systemd_has_no_complaint(tmp_path):
    for unit in ("uwsgi-headroom.service", "uwsgi-headroom.socket"):
        (tmp_path / unit).write_text((FOLDER / unit).read_text().replace(PROGRAM, "/bin/true"))
    ran = subprocess.run(
        ["systemd-analyze", "verify", *tmp_path.iterdir()], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


@with_systemd
def test_the_exposure_is_that_of_the_readme():
    """The score is at most what the README states; newer versions of systemd may count other settings."""
    ran = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", FOLDER / "uwsgi-headroom.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    stated = re.search(r"rates the unit at ([\d.]+) of 10", (FOLDER / "README.md").read_text())
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", ran.stdout)
    assert found, ran.stderr
    assert float(found[1]) <= float(stated[1])


PID = 7


def taken(descriptor, **more):
    """What is taken of one passed descriptor."""
    environment = {"LISTEN_PID": str(PID), "LISTEN_FDS": "1", **more}
    return take_sockets(environment, PID, first=descriptor)


@contextlib.contextmanager
def passed(made):
    """A descriptor of this socket that another process would own."""
    with made:
        descriptor = os.dup(made.fileno())
    try:
        yield descriptor
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def unix_listener(path):
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


@pytest.mark.parametrize("kind", ["tcp", "tcp6", "unix"])
def test_a_listening_socket_is_taken(tmp_path, kind):
    """A TCP or UNIX socket accepts connections afterwards, and programs that this one starts do not get it."""
    makers = {
        "tcp": lambda: socket.create_server(("127.0.0.1", 0)),
        "tcp6": lambda: socket.create_server(("::1", 0), family=socket.AF_INET6),
        "unix": lambda: unix_listener(tmp_path / "web.sock"),
    }
    with passed(makers[kind]()) as descriptor:
        os.set_inheritable(descriptor, True)
        (listener,) = taken(descriptor, LISTEN_FDNAMES="web")
        with listener, socket.socket(listener.family) as client:
            assert listener.fileno() == descriptor
            assert not listener.get_inheritable()
            client.connect(listener.getsockname())
            listener.accept()[0].close()


def test_several_sockets_in_their_order():
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        first = max(map(int, os.listdir("/proc/self/fd"))) + 1
        os.dup2(one.fileno(), first)
        os.dup2(two.fileno(), first + 1)
        environment = {"LISTEN_PID": str(PID), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "web"}
        listeners = take_sockets(environment, PID, first=first)
        assert [listener.getsockname() for listener in listeners] == [one.getsockname(), two.getsockname()]
        for listener in listeners:
            listener.close()


OTHERS = {
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "unix datagrams": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
    "not listening": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
    "connected": lambda: socket.socketpair()[0],
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_socket_is_refused(kind):
    """The message names the descriptor, its name and what the unit needs; the descriptor stays open."""
    what = "not a listening TCP or UNIX stream socket"
    with passed(OTHERS[kind]()) as descriptor:
        with pytest.raises(ConfigError, match=rf"descriptor {descriptor} \(web\) is {what}; .*Accept=no"):
            taken(descriptor, LISTEN_FDNAMES="web")
        os.fstat(descriptor)


def test_what_is_no_socket_is_refused(tmp_path):
    descriptor = os.open(tmp_path / "file", os.O_CREAT)
    with pytest.raises(ConfigError, match=rf"descriptor {descriptor} is not a socket"):
        taken(descriptor)
    os.close(descriptor)
    with pytest.raises(ConfigError, match=r"Bad file descriptor"):
        taken(descriptor)


@pytest.mark.parametrize("count", ["", "-1", "many", "1000000", "9" * 5000])
def test_a_wrong_number_is_refused(count):
    with pytest.raises(ConfigError, match="LISTEN_FDS"):
        taken(3, LISTEN_FDS=count)


@pytest.mark.parametrize("environment", [{}, {"LISTEN_FDS": "1"}, {"LISTEN_PID": "8", "LISTEN_FDS": "1"}])
def test_sockets_of_another_process_are_left_alone(environment):
    """Variables that the parent of this process was given are not for this process."""
    assert take_sockets(environment, PID) == []


@pytest.mark.parametrize("address", ["", f"@headroom-{secrets.token_hex(8)}"], ids=["path", "abstract"])
def test_a_message_is_one_datagram(address):
    """Assignments arrive together, at a path and at an abstract name."""
    with manager(address) as heard:
        Notifier(heard.address).send(READY=1, STATUS="3 servers watched")
        heard.await_state("READY", "1")
    assert heard.messages == [{"READY": "1", "STATUS": "3 servers watched"}]


def test_a_status_is_a_sentence():
    """A line break in it is no assignment."""
    with manager() as heard:
        Notifier(heard.address).send(STATUS="shop\nSTOPPING=1\udcff")
        heard.await_state("STATUS", "shop\\nSTOPPING=1\\udcff")
    assert heard.states("STOPPING") == []
    well = replayed("minified").watch
    never_read = ScriptedWatch("new").watch
    assert describe_servers([]) == "0 servers watched"
    assert describe_servers([never_read]) == "1 server watched"
    assert describe_servers([well, lost(), never_read]) == "3 servers watched, 1 cannot be read"


@pytest.mark.parametrize(
    "address", ["", "/nowhere/socket", "@" + "x" * 300, "/" + "x" * 300, "relative", "/a\0b", "vsock:2:1", "@", "/"]
)
def test_an_address_where_nobody_listens(address):
    Notifier(address).send(READY=1)


def test_a_socket_that_nobody_empties(tmp_path):
    path = tmp_path / "full"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(path))
        notifier = Notifier(str(path))
        for _ in range(5000):
            notifier.send(STATUS="x" * 1000)
        end.setblocking(False)
        count = 0
        with contextlib.suppress(BlockingIOError):
            while end.recv(2000):
                count += 1
        assert 0 < count < 5000


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30.0),
        ({"WATCHDOG_USEC": "1500000"}, 1.5),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "9" * 5000}, None),
        ({"WATCHDOG_USEC": "٣"}, None),
        ({}, None),
    ],
)
def test_the_time_of_the_watchdog(environment, seconds):
    """A watchdog that is for another process, or without a time, expects nothing of this one."""
    assert watchdog_seconds(environment, 7) == seconds


OWN_PID = os.getpid()


def lost():
    return ScriptedWatch("lost").read(SourceError("refused", "nobody listens")).watch


def test_a_turn_feeds_the_watchdog():
    """The status is sent when it changes, also without a watchdog."""
    with manager() as heard:
        one = ServiceManager({"NOTIFY_SOCKET": heard.address, "WATCHDOG_USEC": "30000000"}, OWN_PID)
        for watches in ([], [], [lost()]):
            one.turned(watches)
        heard.await_state("WATCHDOG", "1", 3)
    assert heard.messages == [
        {"WATCHDOG": "1", "STATUS": "0 servers watched"},
        {"WATCHDOG": "1"},
        {"WATCHDOG": "1", "STATUS": "1 server watched, 1 cannot be read"},
    ]
    with manager() as heard:
        one = ServiceManager({"NOTIFY_SOCKET": heard.address, "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}, OWN_PID)
        one.turned([])
        one.turned([])
        one.stopping()
        heard.await_state("STOPPING", "1")
    assert heard.messages == [{"STATUS": "0 servers watched"}, {"STOPPING": "1"}]


def test_a_failed_reload_is_in_the_status_until_one_succeeds():
    """A reload begins with the time that systemd needs, and ends with READY and its problem."""
    with manager() as heard:
        one = ServiceManager({"NOTIFY_SOCKET": heard.address}, OWN_PID)
        one.turned([])
        one.reloading()
        one.reloaded("x.yml:3: unknown key 'a'")
        one.reloading()
        one.reloaded("")
        heard.await_state("READY", "1", 2)
    assert heard.messages[1]["RELOADING"] == "1"
    assert int(heard.messages[1]["MONOTONIC_USEC"]) <= int(heard.messages[3]["MONOTONIC_USEC"])
    problem = "0 servers watched; the configuration was not reloaded: x.yml:3: unknown key 'a'"
    assert heard.states("STATUS") == ["0 servers watched", problem, "0 servers watched"]


def test_nothing_follows_the_end():
    with manager() as heard:
        one = ServiceManager({"NOTIFY_SOCKET": heard.address, "WATCHDOG_USEC": "30000000"}, OWN_PID)
        one.stopping()
        one.turned([])
        one.reloaded("")
        one.stopping()
        ServiceManager({"NOTIFY_SOCKET": heard.address}, OWN_PID).reloading()
        heard.await_state("RELOADING", "1")
    assert heard.messages[0] == {"STOPPING": "1"}
    assert len(heard.messages) == 2


@pytest.mark.parametrize(("seconds", "warned"), [(LEAST_WATCHDOG_SECONDS - 1, True), (LEAST_WATCHDOG_SECONDS, False)])
def test_a_watchdog_that_is_too_quick(caplog, seconds, warned):
    """A watchdog that could end an exporter that is only slow is reported at start."""
    ServiceManager({"WATCHDOG_USEC": str(int(seconds * 1e6))}, OWN_PID)
    assert ("WatchdogSec=" in caplog.text) == warned
