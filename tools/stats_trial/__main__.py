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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools import commands, debian_root, systemd_machine
from tools.commands import note, show_step
from tools.debian_root import FailedError, machine
from tools.environments import ROOT
from tools.stats_trial.setups import SET_UPS, SetUp
from tools.stats_trial.trial import Phase, Step, Trial, blocks
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
    print(render(sorted(rows, key=lambda row: (order.index(row.set_up), row.suite))))
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


@contextlib.contextmanager
def with_this_checkout(suite: str) -> Iterator[Path]:
    """Yields a layer on the root of `suite` in which the exporter of HEAD is installed."""
    with layer([_prepared(suite)]) as (root, upper):
        systemd_machine.copy_source(root)
        with machine(root) as bare, show_step(f"{suite}: pip install of this checkout"):
            pip = ["/opt/uwsgi-headroom/bin/pip", "install", "-q", "--no-deps", "--force-reinstall", "/srv/source"]
            bare.run(*pip)
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
    """The root of `suite` with systemd, three uWSGIs and the exporter's dependencies; makes it if absent."""
    needs = [*_PACKAGES, *_PROGRAMS.values(), (ROOT / "setup.cfg").read_text(), (ROOT / "pyproject.toml").read_text()]
    digest = hashlib.sha256("\n".join(needs).encode()).hexdigest()[:12]
    kept = debian_root.cache() / f"stats-trial-{suite}-{digest}"
    if not kept.exists():
        with debian_root.copied(suite, debian_root.cache()) as copy:
            policy = debian_root.forbid_services(copy)  # of Debian's own uWSGI, which may start in the booted machine
            systemd_machine.install_programs(copy, _PACKAGES, _PROGRAMS)
            policy.unlink()
            for older in debian_root.cache().glob(f"stats-trial-{suite}-*"):
                shutil.rmtree(older)
            copy.rename(kept)  # atomic: the root is complete or absent
    return kept


_HEAD = """\
"Following it" ends with the first reload; then come another reload, a stop and a start 2 s later, and a boot. Failed:
requests without an answer. Away: the longest time without an answer.
"""


@dataclass(frozen=True)
class Row:
    """What was found of a set-up on one suite. printed: by `discover`, each time; after: by the act, with its lines;
    found: whatever failed."""

    suite: str
    set_up: str
    printed: Sequence[str] = ()
    after: Mapping[str, Phase] = field(default_factory=dict)
    found: Sequence[str] = ()

    @property
    def harmed(self) -> bool:
        """Whether following `discover` changed the application, or cost a request where no restart was announced."""
        if any(not phase.serves or not phase.kept for phase in self.after.values()):
            return True
        return not self.restarts and any(self.after[act].failed for act in ("follow", "reload") if act in self.after)

    @property
    def restarts(self) -> bool:
        """Whether `discover` said that uWSGI has to be stopped and started."""
        return any(step.restarts for step in _steps(self.printed))

    @property
    def verdict(self) -> str:
        """In a word or two: whether stats are on and stay on, without harm."""
        if self.harmed:
            return "HARM"
        if "reboot" not in self.after:
            return "no lines" if not _pasted(self.printed) else "NO STATS"
        good = all(phase.exporter and phase.other is False and phase.exact for phase in self.after.values())
        return "good" if good and not self.found else "FAULTS"


def render(rows: Sequence[Row]) -> str:
    return "\n".join([_HEAD, *_table(rows)]) + "\n"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "| set-up | suite | `discover` | following it: failed, away | reload again"
        " | stop, start | reboot | sockets as before | stats: exporter / other user | counts | verdict |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        phases = list(row.after.values())
        cells = [
            row.set_up,
            row.suite,
            _said(row.printed),
            *(_act(row, act) for act in ("follow", "reload", "restart", "reboot")),
            _all([phase.kept for phase in phases], "yes", "NO"),
            f"{_all([phase.exporter for phase in phases], 'reads', 'CANNOT')} / "
            f"{_all([None if phase.other is None else not phase.other for phase in phases], 'refused', 'READS')}",
            _all([phase.exact for phase in phases], "exact", "WRONG"),
            row.verdict,
        ]
        yield f"| {' | '.join(cells)} |"


def _act(row: Row, act: str) -> str:
    phase = row.after.get(act)
    if phase is None:
        return "-"
    announced = act in ("follow", "reload") and row.restarts
    note = " (`discover` says: a restart)" if announced else ""
    return f"{phase.failed} failed, {phase.away:.1f} s{note}" if phase.serves else "DOWN"


def _steps(printed: Sequence[str]) -> list[Step]:
    return [step for text in printed for block in blocks(text) for step in block.steps]


def _pasted(printed: Sequence[str]) -> list[Step]:
    return [step for step in _steps(printed) if step.lines]


def _said(printed: Sequence[str]) -> str:
    steps = _pasted(printed)
    count = sum(len(step.lines.splitlines()) for step in steps)
    rounds = sum(bool(_pasted([text])) for text in printed)
    if not steps:
        return "no lines"
    return f"{count} line{'s' * (count > 1)}" + (f" in {rounds} rounds" if rounds > 1 else "")


def _all(values: Sequence[bool | None], good: str, bad: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    return good if all(known) else bad


if __name__ == "__main__":
    sys.exit(main())
