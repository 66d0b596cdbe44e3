"""The one-file program works under systemd, which starts its loader and not itself."""

from __future__ import annotations

import configparser
import importlib.util
import socket
from types import ModuleType

from tests.deploy.files import DEPLOY
from uwsgi_headroom.service.systemd import take_sockets, watchdog_seconds

FOLDER = DEPLOY / "standalone"
LOADER, PROGRAM = 4711, 4712


def _loaded() -> ModuleType:
    """The entry point, which is not part of a package."""
    spec = importlib.util.spec_from_file_location("launcher", FOLDER / "launcher.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


launcher = _loaded()


def test_the_watchdog_of_the_loader_is_fed() -> None:
    """systemd sets WATCHDOG_PID to the process that it starts, and would end an exporter that does not report."""
    environment = {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(LOADER)}
    assert watchdog_seconds(environment, PROGRAM) is None
    launcher.take_over(environment, PROGRAM, LOADER)
    assert watchdog_seconds(environment, PROGRAM) == 30


def test_the_sockets_of_the_loader_are_taken() -> None:
    """The same with LISTEN_PID."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        environment = {"LISTEN_FDS": "1", "LISTEN_PID": str(LOADER)}
        assert take_sockets(environment, PROGRAM, first=listener.fileno()) == []
        launcher.take_over(environment, PROGRAM, LOADER)
        (taken,) = take_sockets(environment, PROGRAM, first=listener.fileno())
        assert taken.detach() == listener.fileno()


def test_variables_for_another_process_stay() -> None:
    """The program may be started by something that has a watchdog of its own."""
    environment = {"WATCHDOG_PID": "1", "LISTEN_PID": "1"}
    launcher.take_over(environment, PROGRAM, LOADER)
    assert environment == {"WATCHDOG_PID": "1", "LISTEN_PID": "1"}


def test_the_drop_in_changes_the_program_alone() -> None:
    """The command is that of the unit, and messages of the child are accepted."""
    text = (FOLDER / "one-file.conf").read_text()
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    unit = (DEPLOY / "systemd/uwsgi-headroom.service").read_text()
    command = parser["Service"]["ExecStart"]
    assert "ExecStart=\n" in text  # a second command instead of another one is an error for Type=notify
    assert f"ExecStart={command.replace('/usr/local/bin', '/opt/uwsgi-headroom/bin')}\n" in unit
    assert parser["Service"]["NotifyAccess"] == "all"
    readme = (FOLDER / "README.md").read_text()
    assert "/usr/local/bin/uwsgi-headroom " in readme
    assert " deploy/standalone/one-file.conf /etc/systemd/system/uwsgi-headroom.service.d/" in readme
