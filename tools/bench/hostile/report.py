"""Formats the figures as Markdown: tables, and the missed targets."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence

from tests.support.hostile.cases import CASES
from tools.bench.hostile.beside import ABUSES, DESCRIPTORS, SCRAPE_TIMEOUT, Figures
from tools.bench.hostile.crowds import CLIENTS, LEAVE_SECONDS, QUIET, SCRAPE_EVERY, STORED_EVENTS, Crowd
from tools.bench.hostile.decoding import TIMES, Decoding
from tools.bench.table import load_average, render_table

SAMPLES_TARGET = 0.5
"""The least part of its samples that a good server keeps."""

DECODING_TARGET = 0.05
"""Seconds for which decoding one document may block everything else."""


CROWD_SAMPLES_TARGET = 0.9
"""The least part of its samples that a server keeps beside 200 clients of any route."""

CROWD_SCRAPE_TARGET = 0.5
"""Seconds within which a scrape is answered beside them."""

Crowds = Mapping[tuple[str, str, str], Crowd]


def report(
    beside: Mapping[str, Figures],
    decoded: Mapping[str, Decoding],
    crowded: Crowds,
    seconds: float,
    crowd_seconds: float,
) -> str:
    """The whole text between the markers."""
    parts = [_how(seconds), _beside(beside), _how_crowded(crowd_seconds), _crowded(crowded)]
    parts += [_how_decoded(), _decoded(decoded), _misses(beside, decoded, crowded), _machine()]
    return "\n\n".join(parts)


def _how(seconds: float) -> str:
    clients = "; ".join(ABUSES)
    return (
        f"`make bench-hostile` ran an exporter for {seconds:g} s in each of four situations, one after the other. It "
        f"always watches one good server at 5 samples a second. Hostile servers: the {len(CASES)} cases of "
        f"`tests/support/hostile/`, all at once, each watched as well. Abusive clients, all at once: {clients}. The "
        f"exporter may open {DESCRIPTORS:,} files. Scrapes are 2 s apart. CPU is a part of one CPU. The loop lag is "
        "the longest delay of the last minute, from `uwsgi_exporter_loop_lag_seconds`."
    )


def _beside(beside: Mapping[str, Figures]) -> str:
    rows = [
        f"{name} | {figures.samples:.2f} | {figures.median_scrape:.3f} | {max(figures.scrapes):.3f} | "
        f"{figures.series:,} | {figures.cpu:.1%} | {figures.resident / 1e6:.0f} | {_lag(figures)}"
        for name, figures in beside.items()
    ]
    return render_table(
        "the exporter | samples a second | scrape, s (median) | scrape, s (max) | series | CPU | peak memory, MB | "
        "loop lag, s",
        rows,
    )


def _lag(figures: Figures) -> str:
    return "-" if figures.lag is None else f"{figures.lag:.3f}"


def _how_crowded(seconds: float) -> str:
    return (
        f"{CLIENTS} clients at once on each route, for {seconds:g} s. The exporter watches the good server, and one "
        "whose document is another at every sample; the clients request the latter. It has a history file of two weeks "
        f"with {STORED_EVENTS:,} events. *ask*: clients read each response and request the next one without a pause. "
        f"*leave*: they reset the connection {LEAVE_SECONDS * 1e3:g} ms after their request, and connect again. "
        f"Samples are of the good server; scrapes are {SCRAPE_EVERY:g} s apart, each over a connection of its own. "
        "Peak memory is of the run so far. The clients take one of the machine's CPUs."
    )


def _crowded(crowded: Crowds) -> str:
    rows = [
        f"{size} | {manner or '-'} | {route} | {crowd.samples:.2f} | {crowd.median_scrape:.3f} | "
        f"{max(crowd.scrapes):.3f} | {crowd.answers:,.0f} | {crowd.refused:,.0f} | {crowd.resident / 1e6:.0f}"
        for (size, manner, route), crowd in crowded.items()
    ]
    return render_table(
        "the server | clients | route | samples a second | scrape, s (median) | scrape, s (max) | answered a second | "
        "refused a second | peak memory, MB",
        rows,
    )


def _crowd_misses(crowded: Crowds) -> Iterator[str]:
    for (size, manner, route), crowd in crowded.items():
        alone = crowded[size, "", QUIET].samples
        where = f"{size}, {manner}, {route}"
        if crowd.samples < CROWD_SAMPLES_TARGET * alone:
            yield f"{where}: {crowd.samples / alone:.0%} of the samples"
        if max(crowd.scrapes) > CROWD_SCRAPE_TARGET:
            yield f"{where}: a scrape took {max(crowd.scrapes):.2f} s"


def _how_decoded() -> str:
    return (
        "While the exporter decodes a document, it does nothing else. Each of these documents is as large as the "
        f"bounds allow, and was decoded {TIMES} times in a separate process. Growth is the peak memory of the process "
        "above what it had before, without the document itself."
    )


def _decoded(decoded: Mapping[str, Decoding]) -> str:
    rows = [
        f"{name} | {decoding.size / 1e6:.2f} | {decoding.outcome} | {decoding.median_cpu * 1e3:.1f} | "
        f"{max(decoding.cpu) * 1e3:.1f} | {decoding.growth / 1e6:.1f}"
        for name, decoding in decoded.items()
    ]
    return render_table("document | MB | read as | CPU, ms (median) | CPU, ms (max) | growth, MB", rows)


def _misses(beside: Mapping[str, Figures], decoded: Mapping[str, Decoding], crowded: Crowds) -> str:
    least = SAMPLES_TARGET * next(iter(beside.values())).samples
    misses: Sequence[str] = [
        *(
            f"{name}: {figures.samples:.2f} samples a second, less than half of the rate alone"
            for name, figures in beside.items()
            if figures.samples < least
        ),
        *(
            f"{name}: {late} of {len(figures.scrapes)} scrapes were not answered within {SCRAPE_TIMEOUT:g} s"
            for name, figures in beside.items()
            if (late := sum(seconds >= SCRAPE_TIMEOUT for seconds in figures.scrapes))
        ),
        *(
            f"{name}: decoding took {decoding.median_cpu * 1e3:.0f} ms, more than {DECODING_TARGET * 1e3:g} ms"
            for name, decoding in decoded.items()
            if decoding.median_cpu > DECODING_TARGET
        ),
        *_crowd_misses(crowded),
    ]
    aims = (
        f"Targets: a good server keeps half of its samples; a scrape is answered within {SCRAPE_TIMEOUT:g} s; a "
        f"document is decoded within {DECODING_TARGET * 1e3:g} ms of CPU time (median). Beside {CLIENTS} clients of "
        f"any route, a server keeps {CROWD_SAMPLES_TARGET:.0%} of its samples, and a scrape is answered within "
        f"{CROWD_SCRAPE_TARGET:g} s."
    )
    return "\n".join([aims, "", "Misses:" if misses else "Misses: none.", *(f"* {miss}" for miss in misses)])


def _machine() -> str:
    return (
        f"Machine: {os.cpu_count()} CPUs, {platform.system()} {platform.release()}, "
        f"{platform.python_implementation()} {platform.python_version()}; load average at the end "
        f"{load_average()}, the benchmark's own included."
    )
