"""Runs the exporter beside all hostile servers, and collects the results."""

import contextlib
import math
import os
import signal
import time
from collections.abc import Sequence

import psutil
from msgspec import Struct
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.support.bad_servers import counted_server
from tests.support.exporter import configured_exporter, peak_resident_bytes
from tests.support.hostile.cases import CASES
from tests.support.hostile.process import hostile_servers
from tests.support.real_uwsgi import wait_until
from uwsgi_headroom.errors import REASONS

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Values by name and labels (sorted pairs)."""

GOOD = "good"
"""The name of the well-behaved server."""

SCRAPES = 3
"""The least number of scrapes. Prometheus' parser takes a second for each."""

SETTLED_SECONDS = 240.0
"""Seconds after which every server has shown its state, even on a machine with ten times the load: it ends sooner."""


class Run(Struct, frozen=True):
    """reads: of the good server, in `reading_seconds`; descriptors: those open at the end; resident_bytes: the peak;
    seconds: of the exporter's life; log: its lines; status: that of its process after SIGTERM; left_over: whether
    another process of its group outlives it."""

    scrapes: Sequence[Series]
    openmetrics: Series
    reads: int
    reading_seconds: float
    descriptors: int
    resident_bytes: int
    seconds: float
    log: Sequence[str]
    status: int
    left_over: bool


def run_beside_all():
    """Runs the exporter until every case has shown its state."""
    with contextlib.ExitStack() as stack:
        hostile = stack.enter_context(hostile_servers())
        good = stack.enter_context(counted_server())
        began = time.monotonic()
        running = stack.enter_context(configured_exporter([{"name": GOOD, "stats": good.address}, *hostile]))
        wait_until(lambda: good.reads, what="the first read")
        first = time.monotonic()
        scrapes = []
        end = first + SETTLED_SECONDS
        while len(scrapes) < SCRAPES or (
            time.monotonic() < end and not all(has_shown(case, scrapes) for case in CASES)
        ):
            scrapes.append(parse_scrape(running.metrics()))
        reads, reading_seconds = len(good.reads), time.monotonic() - first
        openmetrics = parse_scrape(running.metrics(accept="application/openmetrics-text"), openmetrics=True)
        descriptors = psutil.Process(running.pid).num_fds()
        resident = peak_resident_bytes(running.pid)
        running.process.send_signal(signal.SIGTERM)
        status = running.process.wait(60)
        return Run(
            scrapes=scrapes,
            openmetrics=openmetrics,
            reads=reads,
            reading_seconds=reading_seconds,
            descriptors=descriptors,
            resident_bytes=resident,
            seconds=time.monotonic() - began,
            log=running.log.read_text().split("\n")[:-1],
            status=status,
            left_over=_group_has_members(running.pid),
        )


def _group_has_members(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


_ONLY_GROWS = ("_total", "_bucket", "_count", "_sum")


def parse_scrape(text, *, openmetrics=False):
    """Returns every series of a scrape. Raises ValueError if a parser refuses it; AssertionError if a series occurs
    twice, a value is not a number, or a counter is below zero."""
    parse = parse_openmetrics if openmetrics else parse_text
    series = {}
    for family in parse(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in series, f"{key} is there twice"
            assert not math.isnan(sample.value), key
            assert sample.value >= 0 or not sample.name.endswith(_ONLY_GROWS), key
            series[key] = sample.value
    return series


def is_up(series, server):
    return series["uwsgi_up", (("server", server),)] == 1


def was_up(server, scrapes):
    """Whether any scrape says that the server is up. On a busy machine it may be read too rarely to be up in all."""
    return any(is_up(series, server) for series in scrapes)


def was_read(server, scrapes):
    """Whether the server was read at least once. Only documents of uWSGI servers are samples."""
    samples = scrapes[-1]["uwsgi_exporter_samples_total", (("server", server),)]
    return samples > 0 or was_up(server, scrapes)


def failures(server, series):
    name = "uwsgi_exporter_read_errors_total"
    return {reason for reason in REASONS if series[name, (("reason", reason), ("server", server))] > 0}


def has_shown(case, scrapes):
    """Whether everything expected of a server has happened. Does not check what must not happen."""
    if not case.expected.reasons:
        return was_up(case.name, scrapes)
    return bool(failures(case.name, scrapes[-1])) and was_read(case.name, scrapes) >= case.expected.read
