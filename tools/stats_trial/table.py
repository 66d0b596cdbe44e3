"""What the trial found, as Markdown: a table with a row for each set-up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tools.stats_trial import following
from tools.stats_trial.trial import Phase

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
    told = " (`discover` says: a restart)" if announced else ""
    return f"{phase.failed} failed, {phase.away:.1f} s{told}" if phase.serves else "DOWN"


def _steps(printed: Sequence[str]) -> list[following.Step]:
    return [step for text in printed for block in following.blocks(text) for step in block.steps]


def _pasted(printed: Sequence[str]) -> list[following.Step]:
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
