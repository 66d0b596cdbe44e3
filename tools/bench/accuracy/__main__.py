"""Compares the exporter's figures with the truth: a real uWSGI, the exporter, and a load that times its own requests.

"clients' own" is how much more the clients saw from connection to end, and so bounds the error of the truth
(`generator`). The exit status is 0 whatever was measured. Each case starts its own uWSGI, exporter and load.

Requests wait rather than compute, so that two CPUs can serve 32 threads. At 20 % and 60 % of capacity there are twice
as many clients, who think for as long, so that the number of requests in service varies at random; at 100 % one for
each thread, without think time. Bursts alternate one second on and off, with as many clients as fill that part of the
threads.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.support.real_uwsgi import uwsgi
from tools.bench import table
from tools.bench.accuracy import judge, percentiles
from tools.bench.accuracy.generator import LISTEN, Case, Load, generator
from tools.bench.accuracy.judge import Measured
from tools.bench.accuracy.scrapes import Scrape, Scraper, exporting
from tools.bench.table import Line
from tools.scenarios.scenario import APP

WAIT_MS, CPU_MS = 200.0, 1.0
WARM_UP = 3.0  # seconds: fifteen mean waits
SCRAPE_EVERY = 5.0
"""Seconds between scrapes, a common setting: scrapes are much rarer than samples and do not affect them."""


def every() -> Iterator[Case]:
    wait = Load(clients=0, io_ms=WAIT_MS, cpu_ms=CPU_MS)
    for shape, processes, threads in (("4x8", 4, 8), ("8x1", 8, 1)):
        capacity = processes * threads
        for part in (0.2, 0.6, 1.0):
            clients, think = (round(2 * part * capacity), WAIT_MS) if part < 1 else (capacity, 0.0)
            steady = replace(wait, clients=clients, think_ms=think)
            yield Case(f"{shape} {part:.0%} steady", processes, threads, steady)
            bursty = replace(wait, clients=round(part * capacity), burst=1.0)
            yield Case(f"{shape} {part:.0%} bursty", processes, threads, bursty)
    two = replace(wait, clients=2)
    yield Case("4x8 long request", 4, 8, two, long=True)
    over = replace(wait, clients=32 + LISTEN - 20)
    yield Case("4x8 overload, UNIX", 4, 8, over, overload=True)
    yield Case("8x1 overload, TCP", 8, 1, replace(over, clients=8 + LISTEN - 20), tcp=True, overload=True)
    yield Case("4x8 queue full, UNIX", 4, 8, replace(over, clients=32 + LISTEN + 40), overload=True)


def run(case: Case, seconds: float) -> list[Line]:
    with (
        uwsgi(*case.options, "--disable-logging", app=APP) as server,
        exporting(server.stats) as (_, scraper),
        generator(case.load, case.address(server)) as load,
    ):
        time.sleep(0.5)
        before = scraper.scrape()
        load.go()
        time.sleep(WARM_UP)
        start = scraper.scrape()
        middle = _measure(scraper, seconds, lambda: load.long(seconds / 2) if case.long else None)
        end = scraper.scrapes[-1]
        truth = load.stop()
        time.sleep(0.3)  # the exporter may answer a scrape from a reading up to 0.1 s old
        after = scraper.scrape()
    measured = Measured(truth, scraper.scrapes, before, start, end, after)
    return list(_judge(case, measured, middle))


def _measure(scraper: Scraper, seconds: float, begin: Callable[[], None]) -> Scrape:
    """Scrapes for `seconds`; returns the scrape shortly before half of them, while a long request still runs."""
    started = time.monotonic()
    begin()
    middle = scraper.until(started + max(1.5, seconds / 2 - 0.5), SCRAPE_EVERY)
    scraper.until(started + seconds, SCRAPE_EVERY)
    return middle


def _judge(case: Case, measured: Measured, middle: Scrape) -> Iterator[Line]:
    yield from judge.exact(measured)
    if case.long:
        yield from judge.in_flight(measured, middle)
    else:
        yield from judge.concurrency(measured, bool(case.load.burst))
    if case.overload:
        yield from judge.queue(measured)


def main() -> None:
    options = table.parse_options("accuracy", __doc__, 60)
    print(table.render_table(table.LINE_HEAD, []), flush=True)
    lines: list[Line] = []
    kinds = ((every, run), (percentiles.every, percentiles.run), (percentiles.every_queue, percentiles.run_queue))
    for case, measure in ((case, measure) for cases, measure in kinds for case in cases()):
        if options.only in case.name:
            judgements = measure(case, options.seconds)
            print(table.lines(case.name, judgements), flush=True)
            lines += judgements
    missed = sum(line.met is False for line in lines)
    judged = sum(line.met is not None for line in lines)
    print(f"\n{judged - missed} of {judged} targets met. {table.machine()}")


if __name__ == "__main__":
    main()
