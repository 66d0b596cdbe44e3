"""The metadata of packages agrees with the repository."""

from __future__ import annotations

import configparser
import re
from importlib.metadata import requires
from pathlib import Path

from tools.release.bundle import EXTRAS, HEADER, LOCK, MACHINES, PYTHONS
from tools.release.source import version_of
from uwsgi_headroom import __version__

ROOT = Path(__file__).resolve().parents[3]
DEBIAN = ROOT / "deploy/debian/debian"
CONTROL = (DEBIAN / "control").read_text()
_PIN = re.compile(r"^([a-z0-9-]+)==(\S+) \\$", re.MULTILINE)


def setup() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_the_version_is_read_without_importing_the_exporter():
    """A release names its files after the exporter's own version, and that is a released one."""
    assert version_of((ROOT / "exporter/uwsgi_headroom/__init__.py").read_text()) == __version__
    assert int(__version__.split(".")[0]) >= 1


def test_everything_that_the_exporter_requires_is_bundled():
    """The lock file pins each requirement of setup.cfg and of the bundled extras, each with hashes."""
    lock = (ROOT / LOCK).read_text()
    pins = dict(_PIN.findall(lock))
    needed = setup().get("options", "install_requires").splitlines()
    for extra in EXTRAS:
        needed += setup().get("options.extras_require", extra, fallback="").splitlines()
    names = {re.split(r"[ <>=]", line)[0].lower() for line in needed if line and not line.startswith("#")}
    assert names <= set(pins)
    assert lock.startswith(HEADER)
    assert all(block.count("--hash=sha256:") >= 1 for block in re.split(_PIN, lock)[3::3])


def test_the_lock_file_names_no_host():
    assert "://" not in (ROOT / LOCK).read_text()


def test_pins_are_within_the_ranges():
    pins = dict(_PIN.findall((ROOT / LOCK).read_text()))
    for line in setup().get("options", "install_requires").splitlines():
        if found := re.match(r"([\w-]+) >= ([\d.]+), < ([\d.]+)$", line):
            name, low, high = found.groups()
            assert numbers(low) <= numbers(pins[name.lower()]) < numbers(high), name


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_debian_wants_the_bundled_versions_of_python():
    """The package's dependency on python3 is the range of the bundled compiled modules, and its architectures fit."""
    low, high = PYTHONS[0], PYTHONS[-1].split(".")
    assert f"python3 (>= {low}), python3 (<< 3.{int(high[1]) + 1})" in CONTROL
    assert f"Architecture: {' '.join(MACHINES)}\n" in CONTROL


def test_debian_installs_what_the_unit_runs():
    """A reload runs /bin/kill, which a minimal Debian does not have. Only recommended: the rest works without it."""
    unit = (ROOT / "deploy/systemd/uwsgi-headroom.service").read_text()
    assert ("ExecReload=/bin/kill " in unit) == ("\nRecommends: procps\n" in CONTROL)


def test_each_bundled_package_is_in_the_copyright():
    text = (DEBIAN / "copyright").read_text().lower().replace("_", "-")
    assert [name for name in dict(_PIN.findall((ROOT / LOCK).read_text())) if name not in text] == []


def test_extras_of_the_installed_project():
    """The extras that packages bundle are the project's, except those that this installation predates."""
    extras = {found[1] for line in requires("uwsgi-headroom") or [] if (found := re.search(r'extra == "(\w+)"', line))}
    assert "top" in extras


def test_setup_cfg_invents_no_address():
    """There is no public address yet, so the metadata has none."""
    assert not setup().has_option("metadata", "project_urls")
    assert not setup().has_option("metadata", "url")
