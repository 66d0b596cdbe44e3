"""Simulates days of healthy servers, and counts pages and CRITICAL findings.

`python3 -m tools.bench.days` takes about 30 minutes of one CPU. The exit status is 1 if somebody was paged, or if a
finding was CRITICAL while no users were hurt.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tools.bench.days import course, findings, healthy
from tools.bench.days.findings import Episode, Page
from tools.bench.days.healthy import Day
from tools.bench.table import render_table

TOGETHER = 25
"""Days that are simulated by a process in turn, and whose stretches promtool evaluates together."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.days", description=__doc__)
    parser.add_argument("--days", type=int, default=1000, help="number of days (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first day; the others follow (default 1)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default %(default)s)")
    options = parser.parse_args()
    end = options.seed + options.days
    parts = [range(first, min(end, first + TOGETHER)) for first in range(options.seed, end, TOGETHER)]
    results: list[Verdicts] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for result in pool.map(simulate, parts):
            results.append(result)
            print(summary(join(results)), flush=True)
    verdicts = join(results)
    print(report(verdicts))
    return 1 if verdicts.pages or verdicts.unexplained else 0


def simulate(seeds: Iterable[int]) -> Verdicts:
    days: list[healthy.Day] = []
    episodes: list[findings.Episode] = []
    stretches: list[findings.Stretch] = []
    for seed in seeds:
        ran = course.run(healthy.draw(seed))
        days.append(ran.day)
        episodes += findings.judge_day(ran)
        stretches += findings.find_stretches(ran)
    return Verdicts(days, episodes, [*findings.judged_pages(episodes), *findings.find_pages(stretches)])


SHOWN = 12
"""Unexplained findings that are listed one by one."""


@dataclass(frozen=True)
class Verdicts:
    """What was said about some days."""

    days: Sequence[Day]
    episodes: Sequence[Episode]
    pages: Sequence[Page]

    @property
    def unexplained(self) -> list[Episode]:
        return [each for each in self.episodes if each.severity == "critical" and not each.hurt.explains_critical]


def join(parts: Sequence[Verdicts]) -> Verdicts:
    return Verdicts(
        *([each for part in parts for each in getattr(part, name)] for name in ("days", "episodes", "pages"))
    )


def report(verdicts: Verdicts) -> str:
    return "\n\n".join(_sections(verdicts))


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
    if verdicts.pages:
        yield _pages(verdicts)
    yield _findings(verdicts)
    if verdicts.unexplained:
        yield _unexplained(verdicts)


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


if __name__ == "__main__":
    sys.exit(main())
