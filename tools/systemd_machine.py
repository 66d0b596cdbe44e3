"""`make systemd-machine`: checks the systemd unit in a container that runs systemd as its first process.

Needs root and podman. Makes a minimal Debian root, installs systemd, HEAD and a uWSGI in it, boots it, and does what
deploy/systemd/README.md says. Takes about four minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools import commands, debian_root, systemd_checks
from tools.commands import CommandError
from tools.debian_root import UnavailableError
from tools.environments import ROOT
from tools.machine import machine
from tools.progress import show_step
from tools.systemd_checks import Booted

BOOT_SECONDS = 60.0
END_SECONDS = 30.0

_PROGRAMS = ("podman", "runc")
PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "python3-venv", "curl", "procps")
PROGRAMS = {"/opt/uwsgi-headroom": "/srv/source", "/opt/uwsgi": "pyuwsgi"}
"""The exporter of HEAD and a uWSGI, by the place of their virtual environments."""

# systemd manages cgroups itself, and limits of open files may not be raised here.
_CONTAINERS = """[containers]
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
"""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.systemd_machine", description=__doc__)
    parser.add_argument("suite", nargs="?", help="Debian suite, such as trixie (default: this machine's)")
    suite = parser.parse_args(argv).suite
    return debian_root.run_check("systemd-machine", lambda: _check(suite or debian_root.own_suite()))


def refuse_without_podman() -> None:
    """Raises `UnavailableError` if no container can be run here."""
    if missing := [program for program in _PROGRAMS if not shutil.which(program)]:
        raise UnavailableError(f"this machine has no {', '.join(missing)}: apt-get install podman runc netavark")


def _check(suite: str) -> None:
    refuse_without_podman()
    with debian_root.copied(suite, debian_root.cache()) as copy:
        _install(copy)
        with booted_machine(copy) as booted:
            for sentence, check in systemd_checks.CHECKS.items():
                with show_step(sentence):
                    check(booted)
    print("systemd-machine: the unit does what its README says")


def _install(copy: Path) -> None:
    """Installs systemd, the exporter of HEAD with its units as the README says, and a uWSGI with a unit."""
    install_programs(copy, PACKAGES, PROGRAMS)
    units = copy / "etc" / "systemd" / "system"
    for unit in ("uwsgi-headroom.service", "uwsgi-headroom.socket"):
        shutil.copyfile(copy / "srv" / "source" / "deploy" / "systemd" / unit, units / unit)
    for path, text in systemd_checks.FILES.items():
        (copy / path).write_text(text)


def install_programs(copy: Path, packages: Sequence[str], programs: Mapping[str, str]) -> None:
    """Installs Debian's packages, then Python's, each in a virtual environment at a place of its own."""
    copy_source(copy)
    with machine(copy) as bare:
        with show_step("apt-get install systemd python3-venv"):
            apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y"]
            try:
                commands.run_command(bare.command([*apt, "update"]))
            except CommandError as error:
                raise UnavailableError(f"no archive: {error.last_line}") from error
            commands.run_command(bare.command([*apt, "install", "--no-install-recommends", *packages]))
        for place, package in programs.items():
            with show_step(f"pip install {package}"):
                commands.run_command(bare.command(["python3", "-m", "venv", place]))
                commands.run_command(bare.command([f"{place}/bin/pip", "install", "-q", package]))


def copy_source(copy: Path) -> None:
    """Writes the files of HEAD to /srv/source of a root."""
    source = copy / "srv" / "source"
    source.mkdir(exist_ok=True)
    archive = subprocess.run(
        ["git", "-c", "safe.directory=*", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)


@contextlib.contextmanager
def booted_machine(copy: Path) -> Iterator[Booted]:
    """Boots the root in a container without a network. Raises `UnavailableError` if systemd does not start here."""
    place = Path(tempfile.mkdtemp(prefix="headroom-"))  # podman wants a short path
    name = f"uwsgi-headroom-{os.getpid()}"
    settings = place / "containers.conf"
    settings.write_text(_CONTAINERS)
    podman = ["env", f"CONTAINERS_CONF={settings}", "podman", "--storage-driver=vfs"]
    podman += [f"--root={place}/storage", f"--runroot={place}/run"]
    options = ["--privileged", "--systemd=always", "--network=none", f"--name={name}", "--rootfs"]
    try:
        with show_step("booting systemd in a container"):
            try:
                commands.run_command([*podman, "run", "--detach", *options, str(copy), "/sbin/init"])
            except CommandError as error:
                raise UnavailableError(f"podman cannot run a container: {error.last_line}") from error
            booted = Booted([*podman, "exec", name], [*podman, "restart", "--time=20", name])
            await_boot(booted)
        yield booted
    finally:
        subprocess.run([*podman, "rm", "--force", "--time=3", name], capture_output=True, check=False)
        _await_end(place)
        shutil.rmtree(place, ignore_errors=True)


def _await_end(place: Path) -> None:
    """Waits for the processes that clean up after the container: they would make their directories again."""
    end = time.monotonic() + END_SECONDS
    while is_named(place) and time.monotonic() < end:
        time.sleep(0.2)


def is_named(place: Path) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if os.fsencode(place) in (process / "cmdline").read_bytes():
                return True
    return False


def await_boot(booted: Booted) -> None:
    """Waits until systemd has started. Raises `UnavailableError` if it does not."""
    end = time.monotonic() + BOOT_SECONDS
    while (state := booted.output("systemctl is-system-running || true").strip()) not in ("running", "degraded"):
        if time.monotonic() > end:
            raise UnavailableError(f"systemd does not start in a container here: {state or 'no answer'}")
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
