"""Writes what was said about simulated days as Markdown: the servers, the pages, and the findings by code."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tools.bench.days.findings import Episode
from tools.bench.days.healthy import Day
from tools.bench.days.pages import Page
from tools.bench.table import render_table

SHOWN = 12
"""Unexplained findings that are listed one by one."""


@dataclass(frozen=True)
class Verdicts:
    """What was said about some days. simulated: the part of the day that was simulated request by request, by day;
    stretches, minutes: of the days, in which the rules were evaluated."""

    days: Sequence[Day]
    simulated: Sequence[float]
    requests: float
    episodes: Sequence[Episode]
    pages: Sequence[Page]
    stretches: int
    minutes: int
    seconds: float
    """CPU seconds that all of it took."""

    @property
    def unexplained(self) -> list[Episode]:
        return [each for each in self.episodes if each.severity == "critical" and not each.hurt.explains_critical]


def join(parts: Sequence[Verdicts]) -> Verdicts:
    return Verdicts(
        days=[day for part in parts for day in part.days],
        simulated=[each for part in parts for each in part.simulated],
        requests=sum(part.requests for part in parts),
        episodes=[each for part in parts for each in part.episodes],
        pages=[each for part in parts for each in part.pages],
        stretches=sum(part.stretches for part in parts),
        minutes=sum(part.minutes for part in parts),
        seconds=sum(part.seconds for part in parts),
    )


def report(verdicts: Verdicts) -> str:
    return "\n\n".join([*_sections(verdicts), _how(verdicts)])


def summary(verdicts: Verdicts) -> str:
    days = len(verdicts.days)
    paged = len({page.seed for page in verdicts.pages})
    unexplained = verdicts.unexplained
    seeds = sorted(day.seed for day in verdicts.days)
    return (
        f"{days:,} server-days (seeds {seeds[0]} to {seeds[-1]}): {len(verdicts.pages)} pages on {paged} days; "
        f"{len(unexplained)} CRITICAL findings on {len({each.seed for each in unexplained})} days while no users were "
        "hurt."
    )


def _sections(verdicts: Verdicts) -> Iterator[str]:
    yield f"**{summary(verdicts)}**"
    yield _sizes(verdicts)
    if verdicts.pages:
        yield _pages(verdicts)
    yield _findings(verdicts)
    if verdicts.unexplained:
        yield _unexplained(verdicts)


def _sizes(verdicts: Verdicts) -> str:
    groups: tuple[tuple[str, Callable[[Day], bool]], ...] = (
        ("1 to 4", lambda day: day.capacity <= 4),
        ("5 to 16", lambda day: 4 < day.capacity <= 16),
        ("17 to 64", lambda day: 16 < day.capacity <= 64),
        ("128 to 256", lambda day: day.capacity > 64),
    )
    rows = []
    for name, belongs in groups:
        chosen = [place for place, day in enumerate(verdicts.days) if belongs(day)]
        if not chosen:
            continue
        days = [verdicts.days[place] for place in chosen]
        used = sorted(day.peak * day.service / day.capacity for day in days)
        service = sorted(day.service for day in days)
        simulated = sum(verdicts.simulated[place] for place in chosen) / len(chosen)
        paged = {page.seed for page in verdicts.pages}
        said = [each for each in verdicts.episodes if each.seed in {day.seed for day in days}]
        critical = [each for each in said if each.severity == "critical"]
        rows.append(
            " | ".join(
                [
                    name,
                    str(len(days)),
                    f"{1e3 * service[0]:.0f} to {1e3 * service[-1]:.0f}",
                    f"{used[0]:.0%} to {used[-1]:.0%}, median {used[len(used) // 2]:.0%}",
                    f"{simulated:.0%}",
                    str(sum(day.seed in paged for day in days)),
                    str(len({each.seed for each in critical})),
                    str(len({each.seed for each in critical if not each.hurt.explains_critical})),
                ]
            )
        )
    head = (
        "threads | days | response time, ms | busy in the busiest hour | simulated by request | days with a page | "
        "days with a CRITICAL | while no users were hurt"
    )
    return render_table(head, rows)


def _pages(verdicts: Verdicts) -> str:
    days = {day.seed: day for day in verdicts.days}
    rows = [
        f"{page.alert} | {page.seed} | {_server(days[page.seed])} | {_clock(page.start)} to {_clock(page.end)} | "
        f"{page.minutes} | {page.hurt.part:.0%} ({page.hurt.number})"
        for page in verdicts.pages
    ]
    return render_table("page | seed | server | in | minutes | users hurt in its worst 5 min", rows)


def _findings(verdicts: Verdicts) -> str:
    rows = []
    for severity in ("critical", "warning"):
        said = [each for each in verdicts.episodes if each.severity == severity]
        for code, count in sorted(Counter(each.code for each in said).items(), key=lambda pair: (-pair[1], pair[0])):
            alike = [each for each in said if each.code == code]
            lasted = sorted(each.end - each.start for each in alike)
            rows.append(
                f"{severity} | `{code}` | {count} | {len({each.seed for each in alike})} | "
                f"{sum(each.hurt.explains_critical for each in alike)} | {lasted[len(lasted) // 2]:.0f} | "
                f"{lasted[-1]:.0f}"
            )
    head = "severity | finding | times | days | while users were hurt | median, s | longest, s"
    return render_table(head, rows)


def _unexplained(verdicts: Verdicts) -> str:
    days = {day.seed: day for day in verdicts.days}
    rows = [
        f"{each.seed} | {_server(days[each.seed])} | {_clock(each.start)}, {each.end - each.start:.0f} s | "
        f"`{each.code}` | {each.title} {each.evidence} | {each.hurt.part:.0%} ({each.hurt.number})"
        for each in verdicts.unexplained[:SHOWN]
    ]
    left = len(verdicts.unexplained) - len(rows)
    table = render_table("seed | server | when | finding | what it says | users hurt", rows)
    return f"CRITICAL while no users were hurt:\n\n{table}" + (f"\n\nAnd {left} more." if left else "")


def _server(day: Day) -> str:
    return f"{day.processes}x{day.threads}, {1e3 * day.service:.0f} ms, {day.peak:.1f}/s"


def _clock(second: float) -> str:
    return f"{int(second // 3600):02}:{int(second % 3600 // 60):02}"


def _how(verdicts: Verdicts) -> str:
    days = len(verdicts.days)
    return (
        f"{verdicts.requests / 1e6:,.0f} million requests. The rules were evaluated in {verdicts.stretches:,} "
        f"stretches, {verdicts.minutes / days:.0f} minutes a day. {verdicts.seconds / 60:.0f} min of one CPU; "
        f"{platform.python_implementation()} {platform.python_version()}."
    )
