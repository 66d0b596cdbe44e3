"""What the Debian package holds: paths of the unit, configuration, maintainer scripts, wheels of several Pythons."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tools.environments import SetupError
from tools.release import bundle, deb
from tools.release.try_deb import command_of, total
from uwsgi_headroom.arguments.commands import make_command_line
from uwsgi_headroom.config import precedence

ROOT = Path(__file__).resolve().parents[3]
DEBIAN = ROOT / "deploy/debian/debian"
UNIT = (ROOT / "deploy/systemd/uwsgi-headroom.service").read_text()


def test_the_package_fits_its_unit():
    """Its program and its configuration are those of the unit, and valid. Only a purge deletes the history."""
    words = command_of(deb.unit_for_package(UNIT))
    assert words[0] == "/usr/bin/uwsgi-headroom"
    assert words[words.index("--config") + 1] == "/etc/uwsgi-headroom/uwsgi-headroom.yml"
    options = make_command_line().parse(["serve", "--config", str(DEBIAN / "uwsgi-headroom.yml")])
    config = precedence.resolve_config(options)
    assert [str(host) for host, _ in config.listen] == ["127.0.0.1"]
    assert [server.pattern for server in config.servers] == ["/run/uwsgi/app/*/stats", "/run/uwsgi/*.stats"]
    script = (DEBIAN / "uwsgi-headroom.postrm").read_text()
    purge = script[script.index('if [ "$1" = purge ]') : script.index("fi\n")]
    assert script.count("rm -rf") == purge.count("rm -rf") == 2
    assert total('a_total{x="1"} 2\na_total{x="2"} 3\na_totals 5\nb 1\n', "a_total") == 5


@pytest.mark.parametrize(
    "unit",
    [
        "[Service]\nExecStart=/usr/local/bin/uwsgi-headroom\n",
        UNIT.replace("/opt/uwsgi-headroom/bin/", "/opt/else/bin/"),
    ],
)
def test_a_unit_with_another_command_is_refused(unit):
    with pytest.raises(SetupError):
        deb.unit_for_package(unit)


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_maintainer_scripts_are_shell_that_stops_at_errors(name):
    """Each script parses, stops at the first error, and leaves debhelper a place for its parts."""
    script = DEBIAN / f"uwsgi-headroom.{name}"
    lines = script.read_text().splitlines()
    assert lines[:2] == ["#!/bin/sh", "set -e"]
    assert "#DEBHELPER#" in lines
    subprocess.run(["sh", "-n", script], check=True)


@pytest.mark.skipif(not shutil.which("dpkg-parsechangelog"), reason="needs dpkg-dev: apt-get install dpkg-dev")
def test_the_changelog_is_one_that_dpkg_reads(tmp_path):
    """dpkg finds the version and the time of the commit."""
    path = tmp_path / "changelog"
    path.write_text(deb.changelog("1.2.3", 86400))
    fields = ["-SVersion", "-STimestamp"]
    said = [subprocess.check_output(["dpkg-parsechangelog", "-l", path, field], text=True) for field in fields]
    assert said == ["1.2.3\n", "86400\n"]


def test_platforms_are_those_of_old_enough_systems():
    """pip gets no platform with a newer glibc than the package promises, newest first."""
    names = bundle.platforms("arm64")
    assert names[0] == f"manylinux_2_{bundle.GLIBC}_aarch64"
    assert "manylinux2014_aarch64" in names
    control = (DEBIAN / "control").read_text()
    assert f"libc6 (>= 2.{bundle.GLIBC})" in control
    with pytest.raises(SetupError, match="riscv64"):
        bundle.platforms("riscv64")


def wheel(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return path


def test_wheels_of_two_pythons_stand_side_by_side(tmp_path):
    """Compiled modules of both are there; what belongs to one installation is not."""
    for python in ("311", "312"):
        made = wheel(
            tmp_path / f"{python}.whl", **{f"p__c.{python}.so": python, "p__a.py": "", "p.dist-info__WHEEL": python}
        )
        bundle.unpack_wheel(made, tmp_path / "tree")
    assert sorted(path.name for path in (tmp_path / "tree").rglob("*.*") if path.is_file()) == [
        "a.py",
        "c.311.so",
        "c.312.so",
    ]


def test_different_files_of_one_name_are_refused(tmp_path):
    """A module that differs between Pythons must not be replaced silently."""
    bundle.unpack_wheel(wheel(tmp_path / "one.whl", **{"p__a.py": "1"}), tmp_path / "tree")
    with pytest.raises(SetupError, match=re.escape("p/a.py")):
        bundle.unpack_wheel(wheel(tmp_path / "two.whl", **{"p__a.py": "2"}), tmp_path / "tree")
