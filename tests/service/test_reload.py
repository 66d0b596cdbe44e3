"""A reload applies what can be applied, names what needs a restart, and changes nothing if it fails."""

import argparse
import asyncio
import contextlib
import logging
import os
import pty
import signal
import subprocess
from dataclasses import replace

import pytest

from tests.service.service_manager import manager
from tests.support.captured_documents import document
from tests.support.exporter import COMMAND, clean_environment
from tests.support.real_uwsgi import wait_until
from tools.environments import ROOT
from uwsgi_headroom import logs
from uwsgi_headroom.arguments.commands import make_command_line
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.servers import make_server
from uwsgi_headroom.config.settings import Config
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.service import reload
from uwsgi_headroom.service.reload import Hangup, Reloader, SettingsSource, restart_needed
from uwsgi_headroom.service.systemd import ServiceManager
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.observation import LastReload

SHOP = make_server("/run/shop", name="shop")
STARTED = Config(servers=(SHOP,))


def reloaded(read, started=STARTED):
    """The problem of one reload, and the fleet after it."""

    async def change():
        fleet = Fleet(started.servers, started.settings)
        reloader = Reloader(read, started, fleet, ServiceManager({}, 1), Hangup(reloads=False))
        return await reloader.reload(), fleet

    return asyncio.run(change())


def names(fleet):
    return [watch.name for watch in fleet.watches()]


def source(*arguments):
    return SettingsSource(make_command_line().parse(["serve", *arguments]))


@pytest.fixture(autouse=True)
def _the_log_of_the_tests_stays(monkeypatch):
    monkeypatch.setattr(logs, "configure", lambda _level, _style: None)


def test_what_changed_is_watched(caplog):
    caplog.set_level(logging.INFO)
    problem, fleet = reloaded(lambda: Config(servers=(SHOP, make_server("/run/api", name="api"))))
    assert problem == ""
    assert names(fleet) == ["shop", "api"]
    assert caplog.records[-1].fields == {"servers": 2, "added": 1, "removed": 0}


def test_an_error_changes_nothing(tmp_path, caplog):
    """One sentence is logged, and the exporter goes on."""
    path = tmp_path / "x.yml"
    path.write_text("servers:\n  - name: shop\n    stats: /run/shop\n    timeout: never\n")
    problem, fleet = reloaded(source("--config", str(path)).read_again)
    assert problem == f"{path}:4: expected a number from 0.1 to 60, not 'never'"
    assert names(fleet) == ["shop"]
    (record,) = caplog.records
    assert record.fields == {"reason": problem}

    def fails():
        raise ZeroDivisionError

    problem, fleet = reloaded(fails)
    assert problem == "internal error"
    assert names(fleet) == ["shop"]
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "not valid YAML"),
        (lambda path: path.write_text("servers: [/run/a, /run/a]"), "already named"),
    ],
    ids=["gone", "a directory", "a pipe", "binary", "two of one name"],
)
def test_a_file_that_cannot_be_read_again(tmp_path, make, reason):
    """A reload neither fails with another error nor waits for a file that gives nothing."""
    make(tmp_path / "x.yml")
    problem, fleet = reloaded(source("--config", str(tmp_path / "x.yml")).read_again)
    assert reason in problem
    assert names(fleet) == ["shop"]


def test_the_last_reload_is_known():
    """Its success, and when one succeeded last, are kept for `/metrics`; the start counts as a success."""
    times = [100.0]
    answers = [ConfigError("a mistake"), STARTED, ConfigError("a mistake")]

    def read():
        if isinstance(answer := answers.pop(0), HeadroomError):
            raise answer
        return answer

    async def follow():
        fleet = Fleet(STARTED.servers, STARTED.settings, Clock(epoch=lambda: times[-1]))
        reloader = Reloader(read, STARTED, fleet, ServiceManager({}, 1), Hangup(reloads=False))
        states = [fleet.health.reload]
        for at in (200.0, 300.0, 400.0):
            times.append(at)
            await reloader.reload()
            states.append(fleet.health.reload)
        return states

    assert asyncio.run(follow()) == [
        LastReload(is_successful=True, succeeded_at=100.0),
        LastReload(is_successful=False, succeeded_at=100.0),
        LastReload(is_successful=True, succeeded_at=300.0),
        LastReload(is_successful=False, succeeded_at=300.0),
    ]


def test_an_objective_for_another_rate_is_refused():
    """A threshold that only the file's sampling rate could judge is refused, because that rate needs a restart."""
    fast = replace(STARTED.settings, samples_per_second=20.0, slo=Slo(0.15, 0.99, "x.yml:4"))
    problem, fleet = reloaded(lambda: replace(STARTED, settings=fast))
    assert problem.startswith("x.yml:4: a threshold of 150ms cannot be judged with 5 samples per second")
    assert fleet.settings.slo is None


def test_settings_that_need_a_restart_are_named(caplog):
    """The log names the keys of the file; those that a reload applies are not among them."""
    read = replace(
        STARTED,
        listen=(("127.0.0.1", 1),),
        history="/h",
        log_level="debug",
        settings=replace(STARTED.settings, windows=(30.0,), waits=False, backends=(("a", "1:1"),)),
    )
    assert restart_needed(STARTED, STARTED) == []
    expected = ["web.listen_address", "history.file", "sampling.waits", "backends"]
    assert restart_needed(STARTED, read) == expected
    problem, fleet = reloaded(lambda: read)
    assert (problem, fleet.settings.windows, fleet.settings.waits) == ("", (30.0,), True)
    assert caplog.records[0].fields == {"settings": " ".join(expected)}


def requested(heard, count, *, between):
    """How many times the settings are read after so many requests, one after the other or all at once."""
    reads = 0

    def read():
        nonlocal reads
        reads += 1
        return Config(servers=(SHOP,))

    async def ask():
        one = ServiceManager({"NOTIFY_SOCKET": heard.address}, 1)
        reloader = Reloader(read, Config(), Fleet([]), one, Hangup(reloads=False))
        running = asyncio.create_task(reloader.run())
        for number in range(count):
            reloader.request()
            while between and len(heard.states("READY")) <= number:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        while not heard.states("READY"):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        running.cancel()

    asyncio.run(asyncio.wait_for(ask(), 60))
    return reads


def test_requests_for_a_reload():
    """One after the other are reloads of their own, each reported from beginning to end. Several at once are one."""
    with manager() as heard:
        assert requested(heard, 3, between=True) == 3
        assert [("RELOADING" in message, "READY" in message) for message in heard.messages] == [
            (True, False),
            (False, True),
        ] * 3
    with manager() as heard:
        assert requested(heard, 5, between=False) == 1


def discovering(monkeypatch, *found):
    """Has discovery find these names, one tuple after the other."""
    left = [tuple(make_server(f"/run/{name}", name=name) for name in names) for names in found]

    def discover(*, trusted):
        if not (servers := left.pop(0)):
            raise HeadroomError("none was found")
        return servers

    monkeypatch.setattr(reload, "discover_servers", discover)


def test_a_reload_looks_for_servers_if_none_is_set(monkeypatch):
    """It loses none that restarts at this moment. If it finds none, it fails."""
    discovering(monkeypatch, ("a", "b"), ("b", "c"), ())
    settings = source()
    found = [[server.name for server in settings.with_servers(Config()).servers] for _ in range(3)]
    assert found == [["a", "b"], ["a", "b", "c"], ["a", "b", "c"]]
    discovering(monkeypatch, ())
    with pytest.raises(HeadroomError, match="none was found"):
        source().read_again()


@pytest.mark.parametrize("named", ["servers: [/run/shop]", "servers: [/run/*/stats]", "probe: {targets: [a:1]}"])
def test_a_file_that_is_being_written(monkeypatch, tmp_path, named):
    """An empty file does not replace named servers, nor patterns, by those that discovery finds."""
    discovering(monkeypatch, ("a",))
    (tmp_path / "x.yml").write_text(named)
    settings = source("--config", str(tmp_path / "x.yml"))
    settings.read_again()
    (tmp_path / "x.yml").write_text("")
    problem, fleet = reloaded(settings.read_again)
    assert problem.startswith("no server is named any more")
    assert names(fleet) == ["shop"]


def test_where_the_file_is_named(monkeypatch, tmp_path):
    """The file is that of the flag, else of the environment."""
    monkeypatch.setenv("UWSGI_HEADROOM_CONFIG", "/from/environment")
    assert source("--config", "/from/flag").file == "/from/flag"
    assert source().file == "/from/environment"
    with pytest.raises(ConfigError):
        source().read_again()
    monkeypatch.delenv("UWSGI_HEADROOM_CONFIG")
    assert SettingsSource(argparse.Namespace(config=None)).file == ""


RELOADED = "the configuration is reloaded"


class Running:
    """A running exporter, and its terminal if it has one."""

    def __init__(self, process, log, keyboard):
        self.process, self.log, self.keyboard = process, log, keyboard

    def logs(self, text, count=1):
        """Waits until the log has this text so many times."""

        def found():
            return self.process.poll() is not None or self.log.read_text().count(text) >= count

        wait_until(found, what=text)
        assert self.process.poll() is None, self.log.read_text()


@contextlib.contextmanager
def started(folder, *arguments, terminal=False):
    """Runs the exporter until the block ends, once it has read its server. terminal: in a terminal of its own."""
    keyboard, screen = pty.openpty() if terminal else (-1, os.open(os.devnull, os.O_RDWR))
    log = folder / "log"
    (folder / "well.json").write_bytes(document("minified"))
    (folder / "x.yml").write_text(f"servers: [well=file://{folder}/well.json]\n")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*(["setsid", "--ctty"] if terminal else []), *COMMAND, *arguments, "--web.listen-address", "127.0.0.1:0"],
            cwd=ROOT,
            stdin=screen,
            stdout=output,
            stderr=output,
            env=clean_environment(),
            start_new_session=not terminal,
        )
    os.close(screen)
    running = Running(process, log, keyboard)
    try:
        running.logs("msg=reading")
        yield running
    finally:
        process.kill()
        process.wait(60)
        if terminal:
            with contextlib.suppress(OSError):
                os.close(keyboard)
    assert "Traceback" not in log.read_text()


@pytest.mark.integration
def test_a_terminal_that_is_closed_ends_it(tmp_path):
    with started(tmp_path, "--config", f"{tmp_path}/x.yml", terminal=True) as running:
        for count in (1, 2):
            running.process.send_signal(signal.SIGHUP)
            running.logs(RELOADED, count)
        os.close(running.keyboard)
        assert running.process.wait(60) == -signal.SIGHUP


@pytest.mark.integration
def test_without_a_terminal_it_reloads(tmp_path):
    """A service has no terminal: SIGHUP always reloads, also twice at once, and SIGTERM ends it as usual."""
    with started(tmp_path, "--config", f"{tmp_path}/x.yml") as running:
        for _ in range(2):
            running.process.send_signal(signal.SIGHUP)
        running.logs(RELOADED)
        running.process.send_signal(signal.SIGHUP)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == -signal.SIGTERM


@pytest.mark.integration
def test_without_a_file_it_ends(tmp_path):
    """Without a configuration file or a service manager, SIGHUP ends the exporter, which writes its history first."""
    history = tmp_path / "history.sqlite"
    stats = ("--stats", f"well=file://{tmp_path}/well.json", "--history", str(history))
    with started(tmp_path, *stats) as running:
        wait_until(history.exists, what="the history")
        running.process.send_signal(signal.SIGHUP)
        assert running.process.wait(60) == -signal.SIGHUP
    assert not list(tmp_path.glob("history.sqlite-wal"))


@pytest.mark.integration
@pytest.mark.parametrize("reloads", [False, True])
def test_nohup_is_obeyed(reloads):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        Hangup(reloads=reloads).attach(lambda _signal, _frame: None, lambda: None)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.integration
def test_a_request_before_the_exporter_serves_is_kept():
    """A SIGHUP while the exporter starts reloads once it serves."""
    before = signal.getsignal(signal.SIGHUP)
    reloads = []
    try:
        hangup = Hangup(reloads=True)
        signal.raise_signal(signal.SIGHUP)
        assert not reloads
        hangup.attach(lambda _signal, _frame: reloads.append("end"), lambda: reloads.append("reload"))
        assert reloads == ["reload"]
        signal.raise_signal(signal.SIGHUP)
        assert reloads == ["reload"] * 2
    finally:
        signal.signal(signal.SIGHUP, before)
