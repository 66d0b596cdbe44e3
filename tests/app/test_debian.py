"""Prometheus' programs are those of the machine, or unpacked from Debian's packages; what is missing is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import debian
from app.environments import SetupError

# Both only copy: a package is a directory with the programs that are in it.
APT_GET = """\
#!/bin/sh
echo "$@" >> {notes}
for package; do :; done
[ "$package" = update ] && exit 0
[ -d {archive}/"$package" ] || { echo "E: Unable to locate package $package"; exit 100; }
echo {archive}/"$package" > "$package"_1_all.deb
"""
DPKG_DEB = """\
#!/bin/sh
read package < "$2"
/bin/mkdir -p "$3"/usr/bin
/bin/cp "$package"/* "$3"/usr/bin/
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with nothing but apt, whose archive is a folder; the directory to unpack into is `unpacked`."""
    for name in ("path", "archive", "unpacked"):
        (tmp_path / name).mkdir()
    apt_get = APT_GET.replace("{notes}", str(tmp_path / "notes")).replace("{archive}", str(tmp_path / "archive"))
    program(tmp_path / "path" / "apt-get", apt_get)
    program(tmp_path / "path" / "dpkg-deb", DPKG_DEB)
    for name in ("prometheus", "promtool"):
        program(tmp_path / "archive" / "prometheus" / name)
    for name in ("prometheus-alertmanager", "amtool"):
        program(tmp_path / "archive" / "prometheus-alertmanager" / name)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    return tmp_path


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def asked(machine: Path) -> list[str]:
    """What apt was asked for."""
    notes = machine / "notes"
    return [line.split("Timeout=5 ")[-1] for line in notes.read_text().splitlines()] if notes.exists() else []


def test_programs_of_the_machine_are_used(machine):
    """Upstream's names and Debian's; apt is not asked."""
    for name in ("prometheus", "promtool", "alertmanager", "amtool"):
        program(machine / "path" / name)
    debian.ensure(machine / "unpacked")
    assert debian.find("alertmanager", machine / "unpacked") == machine / "path" / "alertmanager"
    (machine / "path" / "alertmanager").rename(machine / "path" / "prometheus-alertmanager")
    debian.ensure(machine / "unpacked")
    assert debian.find("alertmanager", machine / "unpacked") == machine / "path" / "prometheus-alertmanager"
    assert asked(machine) == []
    assert list((machine / "unpacked").iterdir()) == []


def test_what_is_missing_is_unpacked_once(machine):
    """Nothing is installed, and what the machine has is not unpacked beside it."""
    program(machine / "path" / "promtool")
    assert debian.missing(machine / "unpacked") == ["prometheus", "alertmanager", "amtool"]
    debian.ensure(machine / "unpacked")
    debian.ensure(machine / "unpacked")
    assert asked(machine) == ["download prometheus", "download prometheus-alertmanager"]
    unpacked = {path.name for path in (machine / "unpacked").iterdir()}
    assert unpacked == {"prometheus", "prometheus-alertmanager", "amtool"}
    assert debian.missing(machine / "unpacked") == []
    assert debian.find("alertmanager", machine / "unpacked") == machine / "unpacked" / "prometheus-alertmanager"


def test_package_that_apt_does_not_have_is_named(machine):
    """With the reason, what to type, and what already could be had left out."""
    (machine / "archive" / "prometheus-alertmanager").rename(machine / "gone")
    with pytest.raises(SetupError) as error:
        debian.ensure(machine / "unpacked")
    lines = str(error.value).splitlines()
    assert lines[0].startswith("this machine lacks alertmanager, amtool, ")
    assert lines[0].endswith("E: Unable to locate package prometheus-alertmanager")
    assert lines[1].endswith("apt-get install --no-install-recommends prometheus-alertmanager")


def test_root_fetches_the_lists_of_packages_of_a_fresh_container(machine, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    (machine / "archive" / "prometheus").rename(machine / "gone")
    with pytest.raises(SetupError):
        debian.ensure(machine / "unpacked", ["prometheus"])
    assert asked(machine) == ["download prometheus", "update", "download prometheus"]


def test_program_that_does_not_run_here_is_missing(machine):
    """One that lacks a library, say, is not left behind to be found."""
    program(machine / "archive" / "prometheus" / "prometheus", "#!/bin/sh\necho libc.so.6 is too old; exit 127\n")
    with pytest.raises(SetupError, match=r"^this machine lacks prometheus, and .*: libc\.so\.6 is too old\n"):
        debian.ensure(machine / "unpacked", ["prometheus"])
    assert list((machine / "unpacked").iterdir()) == []


def test_machine_without_apt_is_told_what_is_missing(machine, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SetupError) as error:
        debian.ensure(machine / "unpacked")
    assert "this machine lacks prometheus, promtool, alertmanager, amtool, " in str(error.value)
    assert "apt-get install --no-install-recommends prometheus prometheus-alertmanager\n" in str(error.value)
    assert "https://prometheus.io/download/" in str(error.value)
