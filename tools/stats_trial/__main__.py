"""`make try-stats`: follows what `discover` prints to turn on uWSGI's stats, on booted Debians, and writes a table.

Needs root and podman. In each set-up (setups.py) applications serve one client each while somebody pastes the lines
that `discover` prints, reloads again, stops and starts, and boots; for comparison, somebody pastes the lines that the
README had before. Takes about two minutes for each set-up and suite. The exit status is 0 if no request failed, nothing
of the applications changed, and the stats are exact and private wherever `discover` printed lines; 1 if not, and 75 if
the trial cannot run here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence

from tools import debian_root, systemd_machine
from tools.debian_root import FailedError
from tools.progress import note, show_step
from tools.stats_trial import machines, table
from tools.stats_trial.setups import SET_UPS, SetUp
from tools.stats_trial.table import Row
from tools.stats_trial.trial import Phase, Trial

SUITES = ("bookworm", "trixie")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the trial; returns the exit status."""
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
    """Tries the set-ups; yields a row for each."""
    with machines.with_this_checkout(suite) as installed:
        for set_up in chosen:
            before: Mapping[str, Phase] = {}
            if not set_up.edited:
                with machines.booted(suite, installed) as (machine, root), show_step("the old lines"):
                    old = Trial(set_up, machine, root)
                    old.old()
                    before = old.phases
            with machines.booted(suite, installed) as (machine, root), show_step("what discover prints"):
                new = Trial(set_up, machine, root)
                new.follow()
            row = Row(suite, set_up.name, before, new.printed, new.phases, new.notes)
            note(f"  {set_up.name}: {row.verdict}")
            yield row


if __name__ == "__main__":
    sys.exit(main())
