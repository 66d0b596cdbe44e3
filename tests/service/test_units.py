"""The shipped units: what systemd thinks of them, and what must or must not be in them."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from uwsgi_headroom.config.defaults import LISTEN_ADDRESS
from uwsgi_headroom.service.systemd import LEAST_WATCHDOG_SECONDS

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
