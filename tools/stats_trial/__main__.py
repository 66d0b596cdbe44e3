"""`make try-stats`: follows what `discover` prints to turn on uWSGI's stats, on booted Debians, and writes a table.

Needs root and podman. In each set-up (setups.py) applications serve one client each while somebody pastes the lines
that `discover` prints, reloads again, stops and starts, and boots. Takes about a minute for each set-up and suite. It
fails if a request failed, the applications changed, or stats are not exact and private where `discover` printed lines.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools import commands, debian_root, systemd_machine
from tools.debian_root import FailedError, machine
from tools.environments import ROOT
from tools.progress import note, show_step
from tools.stats_trial import table
from tools.stats_trial.setups import SET_UPS, SetUp
from tools.stats_trial.table import Row
from tools.stats_trial.trial import Trial
from tools.systemd_machine import Booted

SUITES = ("bookworm", "trixie")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.stats_trial", description=__doc__)
    parser.add_argument("suite", nargs="*", help="Debian suites (default: bookworm and trixie)")
    parser.add_argument("--only", action="append", metavar="TEXT", help="set-ups whose names contain it; repeatable")
    options = parser.parse_args(argv)
    return debian_root.run_check("try-stats", lambda: _try_all(options.suite or SUITES, options.only))


def _try_all(suites: Sequence[str], only: Sequence[str]) -> None:
    systemd_machine.refuse_without_podman()
    rows: list[Row] = []
    for suite in suites:
        note(suite)
        named = [each for each in SET_UPS if not only or any(text in each.name for text in only)]
        rows += _tried(suite, [set_up for set_up in named if suite in set_up.suites])
    order = [set_up.name for set_up in SET_UPS]
    print(table.render(sorted(rows, key=lambda row: (order.index(row.set_up), row.suite))))
    if bad := [row.set_up for row in rows if row.verdict not in ("good", "no lines")]:
        raise FailedError(f"not as promised: {'; '.join(bad)}")


def _tried(suite: str, chosen: Sequence[SetUp]) -> Iterator[Row]:
    with with_this_checkout(suite) as installed:
        for set_up in chosen:
            with booted(suite, installed) as (machine, root), show_step("what discover prints"):
                trial = Trial(set_up, machine, root)
                trial.follow()
            row = Row(suite, set_up.name, trial.printed, trial.phases, trial.notes)
            note(f"  {set_up.name}: {row.verdict}")
            yield row


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


if __name__ == "__main__":
    sys.exit(main())
