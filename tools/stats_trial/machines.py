"""Booted Debians for the trial: a root with everything installed, kept per suite, below a layer for each set-up."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools import commands, debian_root, systemd_machine
from tools.environments import ROOT
from tools.machine import machine
from tools.progress import show_step
from tools.systemd_checks import Booted

_PACKAGES = (*systemd_machine.PACKAGES, "uwsgi", "uwsgi-plugin-python3", "sudo", "gcc", "python3-dev")
_PROGRAMS = {**systemd_machine.PROGRAMS, "/opt/uwsgi": "uwsgi", "/opt/pyuwsgi": "pyuwsgi"}
# Debian's own uWSGI must not start while the root is being made; in the booted machine it may.
_POLICY = "usr/sbin/policy-rc.d"


@contextlib.contextmanager
def with_this_checkout(suite: str) -> Iterator[Path]:
    """Yields a layer on the root of `suite` in which the exporter of HEAD is installed."""
    with layer([_prepared(suite)]) as (root, upper):
        systemd_machine.copy_source(root)
        with machine(root) as bare, show_step(f"{suite}: pip install of this checkout"):
            pip = ["/opt/uwsgi-headroom/bin/pip", "install", "-q", "--no-deps", "--force-reinstall", "/srv/source"]
            commands.run_command(bare.command(pip))
        yield upper


@contextlib.contextmanager
def booted(suite: str, installed: Path) -> Iterator[tuple[Booted, Path]]:
    """Boots a new layer on the layer of `with_this_checkout`; yields the machine and its root."""
    with layer([installed, _prepared(suite)]) as (root, _), systemd_machine.booted_machine(root) as started:
        yield started, root


@contextlib.contextmanager
def layer(below: list[Path]) -> Iterator[tuple[Path, Path]]:
    """Mounts a new, empty layer on directories; yields the mount and the layer. Removes both."""
    with tempfile.TemporaryDirectory(prefix="headroom-", dir="/var/tmp", ignore_cleanup_errors=True) as scratch:
        root, upper, work = (Path(scratch, name) for name in ("root", "upper", "work"))
        for directory in (root, upper, work):
            directory.mkdir()
            directory.chmod(0o755)
        Path(scratch).chmod(0o755)
        lower = ":".join(map(str, below))
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        commands.run_command(["mount", "-t", "overlay", "overlay", "-o", options, root])
        try:
            yield root, upper
        finally:
            subprocess.run(["umount", "--lazy", str(root)], check=False)


def _prepared(suite: str) -> Path:
    """Returns the root of `suite` with systemd, three uWSGIs and the exporter's dependencies; makes it if absent."""
    needs = [*_PACKAGES, *_PROGRAMS.values(), (ROOT / "setup.cfg").read_text(), (ROOT / "pyproject.toml").read_text()]
    digest = hashlib.sha256("\n".join(needs).encode()).hexdigest()[:12]
    kept = debian_root.cache() / f"stats-trial-{suite}-{digest}"
    if not kept.exists():
        with debian_root.copied(suite, debian_root.cache()) as copy:
            policy = copy / _POLICY
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
            systemd_machine.install_programs(copy, _PACKAGES, _PROGRAMS)
            policy.unlink()
            for older in debian_root.cache().glob(f"stats-trial-{suite}-*"):
                shutil.rmtree(older)
            copy.rename(kept)  # atomic: the root is complete or absent
    return kept
