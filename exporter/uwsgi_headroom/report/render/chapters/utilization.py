"""Section 2: utilization at peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zoneinfo import ZoneInfo

from matplotlib.figure import Figure

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.report.render.charts import BAND, BLUE, DIM, INK, ORANGE, PANEL, VERMILLION, draw, label, shorten
from uwsgi_headroom.report.render.document import (
    LIMIT_MEANINGS,
    UNKNOWN,
    Block,
    Chart,
    Table,
    Text,
    amount,
    limit_name,
    share,
    times,
    whole,
)
from uwsgi_headroom.report.review.sections import LimitUse, ServerPeak, Utilization
from uwsgi_headroom.report.review.wording import moment_words, quarter_words
from uwsgi_headroom.words.formats import percent

INTRODUCTION = (
    "How full each limit is in the busiest quarter hour of each day, and in the one that counts for the verdict: the "
    "busiest of all, unless it stands out: that is `at peak`. A limit is reached at a "
    "headroom of 1x, when all of it is in use; from 85 % on it is time to act."
)

CAPTION = (
    "Bar: at peak. Line below it: from half of the days to the highest. Diamond: with one server lost. Shaded: time to "
    "act."
)


def write(used: Utilization, zone: ZoneInfo) -> Iterator[Block]:
    yield Text(_when(used, zone))
    if used.limits:
        yield Chart(_words(used), lambda: draw_bars([(limit_name(use.limit), use) for use in used.limits]), CAPTION)
        yield _limits(used)
    yield Text(_moments(used))
    yield Table(
        heads=(
            "server",
            "requests/s",
            "threads in service",
            "available",
            "hottest interpreter",
            "CPUs: own, other programs, idle",
            "headroom",
            "usable",
            "first limit",
        ),
        rows=[_server(server) for server in used.servers],
        caption="The servers in the quarter hour that counts. Usable: the headroom until requests wait.",
        numbers=range(1, 8),
        strong=[place for place, server in enumerate(used.servers) if server.server == used.server],
    )
    yield Text(_one_lost(used))


def _when(used: Utilization, zone: ZoneInfo) -> str:
    text = f"Counts: {quarter_words(used.until, zone)}."
    if used.in_service is not None:
        text += f" Threads in service: {used.in_service:.0f} of {whole(used.available)} available"
        text += f" and {whole(used.configured)} configured."
    if not used.days:
        text += " No day is complete, so this is the busiest quarter hour of the range, and percentiles say nothing."
    if used.exception:
        end, concurrency = used.exception
        text += (
            f" The quarter hour before {moment_words(end, zone)} stands out with {concurrency:.0f} threads in service "
            "and does not count: look at what happened then."
        )
    return text


def _words(used: Utilization) -> str:
    parts = [f"{limit_name(use.limit)} {percent(use.utilization.highest)}" for use in used.limits]
    return f"Highest use of each limit over the days: {', '.join(parts)}."


def _limits(used: Utilization) -> Table:
    rows = [
        (
            f"{limit_name(use.limit)} ({LIMIT_MEANINGS[use.limit]})",
            amount(use.used),
            amount(use.capacity),
            share(use.utilization.p50),
            share(use.utilization.p95),
            share(use.utilization.highest),
            times(use.factor) if use.factor else "over 100x",
            share(use.one_lost),
        )
        for use in used.limits
    ]
    days = used.concurrency
    spread = (amount(days.p50), amount(days.p95), amount(days.highest))
    concurrency = ("threads in service (concurrency)", amount(used.in_service), UNKNOWN, *spread, UNKNOWN, UNKNOWN)
    return Table(
        heads=(
            "limit",
            "in use at peak",
            "capacity",
            "half of the days",
            "95 of 100 days",
            "highest",
            "headroom",
            "one server lost",
        ),
        rows=(concurrency, *rows, *_memory(used)),
        caption="In use and capacity are sums over the servers; shares and headroom are of the fullest server.",
        numbers=range(1, 8),
        style="limits",
    )


def _memory(used: Utilization) -> Iterator[tuple[str, ...]]:
    known = [server.more_workers for server in used.servers if server.more_workers is not None]
    if known:
        yield ("memory (workers that still fit, on the tightest server)", UNKNOWN, f"{min(known)} more", *[UNKNOWN] * 5)


def _moments(used: Utilization) -> str:
    if used.moments is None:
        return "How full the threads were from moment to moment is not known."
    text = (
        "Within the busiest quarter hours of all days, moment by moment: half of the time at most "
        f"{percent(used.moments.p50)} of a server's threads were in service, 95 % of the time at most "
        f"{percent(used.moments.p95)}, and 99 % of the time at most {percent(used.moments.p99)}."
    )
    if used.full is not None:
        if used.full == 0:
            text += " No server had every thread busy."
        else:
            part = "less than 0.1 %" if used.full < 0.001 else share(used.full)
            text += f" Every thread of a server was busy for {part} of it."
    return text


def _server(server: ServerPeak) -> tuple[str, ...]:
    hottest = (
        UNKNOWN
        if server.hottest_interpreter is None
        else f"{server.hottest_interpreter:.2f} (worker {server.hottest_worker})"
    )
    most = "at most " if server.upper_bound and server.factor else ""
    return (
        server.server,
        amount(server.requests),
        amount(server.concurrency),
        whole(server.available),
        hottest,
        ", ".join(amount(value) for value in (server.cpu_own, server.cpu_others, server.cpu_idle)),
        f"{most}{times(server.factor)}",
        "none" if server.usable is not None and server.usable <= 1 else times(server.usable),
        limit_name(server.first) if server.first else UNKNOWN,
    )


def _close(factor: float) -> str:
    """A factor; near 1 with two digits, as it matters on which side it is."""
    return f"{factor:.2f}x" if 0.9 <= factor < 1.1 else times(factor)


def _one_lost(used: Utilization) -> str:
    if used.lone_server:
        return "With one server lost: the service has one server, so it is down."
    if used.one_lost is None:
        return "With one server lost: not known."
    text = (
        f"With one server lost ({used.lost_server} is the worst to lose): headroom {_close(used.one_lost)} on the "
        "others. They take its requests in proportion to their own."
    )
    if used.one_lost < 1:
        return f"{text} Below 1x they cannot serve all of them."
    return text


def draw_bars(rows: Sequence[tuple[str, LimitUse]], title: str = "") -> str:
    """A bar for each limit of a service, with its name: use in the quarter hour that counts; a line from half of the
    days to the highest day; a mark where it would be with one server lost."""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        places = range(len(rows))[::-1]
        for place, (_, use) in zip(places, rows, strict=True):
            now = 1 / use.factor if use.factor else 0.0
            colour = VERMILLION if now >= REACHED else ORANGE if now >= 1 / 1.5 else BLUE
            axes.barh(place, 100 * now, height=0.5, color=colour)
            spread = use.utilization
            axes.plot([100 * spread.p50, 100 * spread.highest], [place - 0.37] * 2, color=DIM, linewidth=2)
            inside = now >= 0.15
            # Beside a short bar there is room for one of both: the number stands with the mark then.
            is_close = not inside and use.one_lost is not None and use.one_lost - now < 0.15
            label(
                axes,
                "" if is_close else percent(now),
                (100 * now, place),
                (-5 if inside else 5, 0),
                ha="right" if inside else "left",
                va="center",
                color=PANEL if inside else INK,
                fontweight="bold",
            )
            if use.one_lost is not None:
                lost = min(use.one_lost, 1.4)
                axes.plot([100 * lost], [place], marker="D", color=INK, markersize=5, linestyle="none")
                label(
                    axes,
                    f"{f'{percent(now)}, ' if is_close else ''}{percent(use.one_lost)} if one is lost",
                    (100 * lost, place),
                    (7, 0),
                    va="center",
                    color=DIM,
                )
        axes.axvspan(100 * REACHED, 100, color=BAND, zorder=0, linewidth=0)
        axes.axvline(100, color=INK, linewidth=1)
        axes.set_yticks(list(places), [shorten(name) for name, _ in rows], color=INK)
        axes.set_xlim(0, 185)
        axes.set_xticks([0, 50, 85, 100], ["0", "50 %", "85 %", "100 %"])
        reached, full = axes.get_xticklabels()[2:]
        reached.set_horizontalalignment("right")
        full.set_horizontalalignment("left")
        axes.set_ylim(-0.7, len(rows) - 0.4)
        axes.spines["left"].set_visible(False)
        axes.tick_params(length=0)
        axes.set_title(title, color=DIM)

    return draw((0.6 if title else 0.45) + 0.33 * len(rows), paint)
