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


def test_what_setup_cfg_says():
    """The version is read without an import, and is a released one. No address is invented; the extras are those of the
    packages."""
    assert version_of((ROOT / "exporter/uwsgi_headroom/__init__.py").read_text()) == __version__
    assert int(__version__.split(".")[0]) >= 1
    assert not setup().has_option("metadata", "project_urls")
    assert not setup().has_option("metadata", "url")
    extras = {found[1] for line in requires("uwsgi-headroom") or [] if (found := re.search(r'extra == "(\w+)"', line))}
    assert "top" in extras


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


def test_bundled_packages():
    """Pins are within the ranges of setup.cfg, name no host, and are in debian/copyright."""
    assert "://" not in (ROOT / LOCK).read_text()
    pins = dict(_PIN.findall((ROOT / LOCK).read_text()))
    for line in setup().get("options", "install_requires").splitlines():
        if found := re.match(r"([\w-]+) >= ([\d.]+), < ([\d.]+)$", line):
            name, low, high = found.groups()
            assert numbers(low) <= numbers(pins[name.lower()]) < numbers(high), name
    text = (DEBIAN / "copyright").read_text().lower().replace("_", "-")
    assert [name for name in dict(_PIN.findall((ROOT / LOCK).read_text())) if name not in text] == []


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_what_debian_depends_on():
    """The Pythons of the bundled modules; /bin/kill for a reload is recommended, as the rest works without it."""
    low, high = PYTHONS[0], PYTHONS[-1].split(".")
    assert f"python3 (>= {low}), python3 (<< 3.{int(high[1]) + 1})" in CONTROL
    assert f"Architecture: {' '.join(MACHINES)}\n" in CONTROL
    unit = (ROOT / "deploy/systemd/uwsgi-headroom.service").read_text()
    assert ("ExecReload=/bin/kill " in unit) == ("\nRecommends: procps\n" in CONTROL)
