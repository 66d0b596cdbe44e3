"""Cases of the alerts about uneven workers."""

from __future__ import annotations

from collections.abc import Sequence

from tests.alerts.cases.case import Case, Firing, acts, firing
from tests.alerts.cases.promtool_series import RESERVE, Phase, Server, Worker, series

RULES = ("recording.yaml", "balance.yaml", "capacity.yaml")
TARGET = {"job": "uwsgi", "instance": "web1:9238", "server": "api"}
HOT, UNEVEN = "UwsgiHotWorkerSaturated", "UwsgiWorkersUneven"

STORY = Server(
    workers=(
        Worker(0.192 * 27.8, 0.379, 0.44),
        Worker(0.430 * 27.8, 0.669, 0.99),
        Worker(0.190 * 27.8, 0.379, 0.44),
        Worker(0.188 * 27.8, 0.379, 0.44),
    )
)
"""4 workers x 8 threads, 27.8 requests/s, one worker with 43 % of them."""

EVEN = Server(
    workers=(
        Worker(0.260 * 27.8, 0.31, 0.58),
        Worker(0.255 * 27.8, 0.31, 0.57),
        Worker(0.245 * 27.8, 0.31, 0.56),
        Worker(0.240 * 27.8, 0.31, 0.55),
    )
)
"""The same load, shared evenly."""

AFTER = Server(
    workers=[
        Worker(share * 27.8, 0.25, share * 27.8 * 0.083, threads=1)
        for share in (0.17, 0.15, 0.13, 0.12, 0.12, 0.11, 0.10, 0.10)
    ]
)
"""8 workers x 1 thread, shares of 10 to 17 %: the end of the story."""


MORE_PROCESSES = (
    "Use more `processes` with fewer `threads` each: 8 processes with 4 threads, instead of 4 processes with 8 "
    "threads. Change one setting at a time, and compare the response times before and after."
)
PAGE = (
    acts(
        MORE_PROCESSES,
        "If `map-socket` assigns sockets to certain workers, skip step 1, and spread the load evenly over these "
        "sockets.",
        "If one kind of request uses most of the CPU, make it cheaper, or serve it from another uWSGI: `uwsgi-headroom "
        "check` on the host shows which kind of request this is.",
    )
    + "Worker 2 takes 43 % of the requests, and its interpreter uses 0.99 of a CPU. Requests take 669 ms in this "
    "worker, but 379 ms in less busy workers; 18 threads of other workers are idle. The uneven load adds 290 ms to 43 "
    "% of the requests: the mean response time is 504 ms instead of 379 ms."
)
TICKET = (
    acts(
        "If equal shares would shorten the mean response time by less than 10 % (see below), do nothing: the uneven "
        "shares are harmless.",
        "If `map-socket` assigns sockets to certain workers, spread the load evenly over these sockets.",
        MORE_PROCESSES,
    )
    + "Worker 2 takes the most requests. Shares of the busiest workers: 43 %, 19 %, 19 %, 19 %. The largest share is "
    "1.7 times an even share; by chance alone, this would be at most 1.1 times. Requests take 669 ms in worker 2, but "
    "379 ms in less busy workers; the interpreter of worker 2 uses 0.99 of a CPU. Even shares would save 125 ms (25 %) "
    "of the mean response time."
)


def story(**change: float) -> Server:
    """The story with other figures for the hot worker."""
    workers = list(STORY.workers)
    figures = {"requests": workers[1].requests, "response_time": 0.669, "load": 0.99} | change
    workers[1] = Worker(**figures)
    return Server(workers=workers)


def _quicker(by: float) -> Server:
    """The story with as many requests at once, which take twice as long on the hot worker, and `by` times as many."""
    workers = [
        Worker(worker.requests * by, (0.758 if place == 1 else 0.379) / by, worker.load)
        for place, worker in enumerate(STORY.workers)
    ]
    return Server(workers=workers)


def one_client(rate: float) -> Server:
    """A client that sends one request after the other: never more than one is in service."""
    return Server(
        workers=[Worker(share * rate, 0.99 / rate, share * 0.9, threads=4) for share in (0.16, 0.46, 0.05, 0.34)]
    )


def hot_page(worker: int = 2, **labels: str) -> Firing:
    """The page of the story."""
    return firing(
        HOT,
        "critical",
        f"uWSGI api on {labels['instance']}: worker {worker} is saturated and takes 43 % of the requests, while other "
        "workers have free threads",
        PAGE.replace("Worker 2", f"Worker {worker}"),
        **labels,
    )


def uneven_ticket(**labels: str) -> Firing:
    """The ticket of the story."""
    return firing(
        UNEVEN,
        "warning",
        f"uWSGI api on {labels['instance']}: one worker takes 1.7 times an even share of the requests",
        TICKET,
        "00:01",
        **labels,
    )


def target(*phases: Phase, **labels: str) -> Sequence[dict[str, str]]:
    """The series of a server that goes through these phases."""
    return series(phases, **{**TARGET, **labels})


def steady(server: Server, minutes: int = 40) -> Sequence[dict[str, str]]:
    """The series of a server whose load does not change."""
    return target(Phase(minutes, server))


def _swapped(server: Server) -> Server:
    first, second, *rest = server.workers
    return Server(workers=[second, first, *rest])


OTHER = {"job": "uwsgi-canary", "instance": "web1:9239", "server": "api"}
NORTH, SOUTH = ({**TARGET, "cluster": cluster} for cluster in ("north", "south"))

CASES = [
    Case(f"{HOT}: silent: the same load shared evenly is no page", steady(EVEN), {"40m": []}, nothing_fires=["40m"]),
    Case(
        f"{HOT}: boundary: at 0.84 of a CPU the interpreter is not saturated",
        steady(story(load=0.84)),
        {"40m": []},
    ),
    Case(
        f"{HOT}: boundary: at 1.45 times the response time of the calm workers it is no page",
        steady(story(response_time=1.45 * 0.379)),
        {"40m": []},
    ),
    Case(
        f"{HOT}: boundary: a difference of 19 ms is no page, though requests take twice as long",
        steady(_quicker(by=379 / 19)),
        {"40m": []},
    ),
    Case(
        f"{HOT}: boundary: a difference of 22 ms is a page where requests take twice as long",
        steady(_quicker(by=379 / 22)),
        {},
        {"40m": 1},
    ),
    Case(
        f"{HOT}: boundary: a worker with 1.2 times its share is not one that takes too much",
        steady(
            Server(
                workers=(
                    Worker(0.30 * 27.8, 0.669, 0.99),
                    Worker(0.24 * 27.8, 0.379, 0.44),
                    Worker(0.235 * 27.8, 0.379, 0.44),
                    Worker(0.225 * 27.8, 0.379, 0.44),
                )
            )
        ),
        {"40m": []},
    ),
    Case(
        f"{HOT}: boundary: with no thread of another worker idle the server is full, not uneven",
        steady(
            Server(
                workers=(
                    Worker(4, 2, 0.99),
                    Worker(2.4, 1.3, 0.99),
                    Worker(0.6, 0.9, 0.5, threads=1),
                    Worker(0.55, 0.9, 0.5, threads=1),
                )
            )
        ),
        {"40m": []},
    ),
    Case(
        f"{HOT}: boundary: just above each threshold it fires, after five minutes and not before",
        target(Phase(20, EVEN), Phase(40, story(load=0.91, response_time=1.55 * 0.379))),
        {"24m": []},
        {"40m": 1},
    ),
    Case(
        f"{HOT}: boundary: 68/32 % over two workers is above the ratio that hurts",
        steady(Server(workers=(Worker(6.8, 0.3, 0.95), Worker(3.2, 0.15, 0.45)))),
        {"5m": []},
        {"15m": 1},
    ),
    Case(f"{HOT}: fires: 43 % on one of four workers", steady(STORY), {"40m": [hot_page(**TARGET)]}),
    Case(
        f"{HOT}: fires: when another worker becomes the hot one, the page stays and its text names that one",
        target(Phase(20, STORY), Phase(40, _swapped(STORY))),
        {"59m": [hot_page(1, **TARGET)]},
        {f"{minute}m": 1 for minute in range(11, 60)},
    ),
    Case(
        f"{HOT}: fires: a page does not resolve while the load is about the threshold, and does ten minutes after it",
        target(Phase(20, STORY), Phase(8, story(load=0.8)), Phase(12, STORY), Phase(40, EVEN)),
        {"79m": []},
        {f"{minute}m": 1 for minute in range(11, 50)},
    ),
    Case(
        f"{HOT}: counter reset: a full reload does not hide it",
        target(Phase(20, STORY), Phase(40, STORY, reload=True)),
        {"20m": [hot_page(**TARGET)], "59m": [hot_page(**TARGET)]},
        {f"{minute}m": 1 for minute in range(20, 60)},
    ),
    Case(
        f"{HOT}: counter reset: neither a full reload nor respawns make an even server look uneven",
        target(Phase(20, EVEN), Phase(20, EVEN, reload=True), Phase(20, EVEN, respawned=(2,))),
        {"21m": [], "25m": [], "41m": [], "46m": [], "59m": []},
        nothing_fires=["59m"],
    ),
    Case(
        f"{HOT}: missing server: when the server is gone the page resolves, and none comes without one",
        target(Phase(20, STORY), Phase(40, None)),
        {"20m": [hot_page(**TARGET)], "40m": []},
        nothing_fires=["40m"],
    ),
    Case(
        f"{HOT}: missing server: without CPU time, or without threads, there is no page",
        [
            *target(Phase(40, Server(workers=STORY.workers, host=False)), server="unproven"),
            *target(Phase(40, Server(workers=STORY.workers, cores=False)), server="no-cores"),
        ],
        {"40m": []},
    ),
    Case(
        f"{HOT}: duplicate series: a server that two exporters watch pages for each, with its own figures",
        [
            *target(Phase(40, STORY)),
            *target(Phase(40, STORY), **OTHER),
        ],
        {"40m": [hot_page(**TARGET), hot_page(**OTHER)]},
    ),
    Case(
        f"{HOT}: duplicate series: of servers that differ in a label of Prometheus alone, each has its own figures",
        [*target(Phase(40, STORY), **NORTH), *target(Phase(40, EVEN), **SOUTH)],
        {"40m": [hot_page(**NORTH)]},
    ),
    Case(
        f"{UNEVEN}: silent: 10-17 % over 8 workers of one thread",
        steady(AFTER),
        {"40m": []},
        nothing_fires=["40m"],
    ),
    Case(
        f"{UNEVEN}: silent: nearly no load, and every request on worker 1",
        steady(
            Server(workers=(Worker(0.5, 0.1, 0.02), *[Worker(0, 0, 0.001)] * 3)),
        ),
        {"40m": []},
        nothing_fires=["40m"],
    ),
    *[
        Case(
            f"{UNEVEN}: silent: shares of 16/46/5/34 % at concurrency 1, at {rate} request{'s' * (rate > 1)}/s",
            steady(one_client(rate)),
            {"40m": []},
            nothing_fires=["40m"],
        )
        for rate in (1, 10, 1000)
    ],
    Case(
        f"{UNEVEN}: silent: one client on two workers of one thread, 85 % of its requests on one",
        steady(Server(workers=(Worker(8.5, 0.099, 0.8, threads=1), Worker(1.5, 0.099, 0.14, threads=1)))),
        {"40m": []},
    ),
    Case(
        f"{UNEVEN}: silent: cheaper adds workers, which have had few requests so far",
        target(
            Phase(20, Server(workers=(Worker(8, 0.3, 0.6), Worker(7.5, 0.3, 0.58), RESERVE, RESERVE))),
            Phase(4, Server(workers=(Worker(7, 0.3, 0.6), Worker(6.6, 0.3, 0.58), Worker(3, 0.2, 0.2), RESERVE))),
            Phase(
                36,
                Server(
                    workers=(
                        Worker(5.4, 0.3, 0.5),
                        Worker(5.3, 0.3, 0.5),
                        Worker(5.2, 0.3, 0.5),
                        Worker(5.1, 0.3, 0.5),
                    )
                ),
            ),
        ),
        {f"{minute}m": [] for minute in (20, 22, 24, 26, 28, 30, 40, 59)},
        nothing_fires=[f"{minute}m" for minute in (24, 30, 40, 59)],
    ),
    Case(
        f"{UNEVEN}: boundary: a hot ratio of 1.48 is no ticket",
        steady(
            Server(
                workers=(
                    Worker(0.37 * 27.8, 0.5, 0.8),
                    Worker(0.22 * 27.8, 0.4, 0.5),
                    Worker(0.21 * 27.8, 0.4, 0.5),
                    Worker(0.20 * 27.8, 0.4, 0.5),
                )
            )
        ),
        {"40m": []},
    ),
    Case(
        f"{UNEVEN}: boundary: a hot ratio of 1.52 is one, after a quarter of an hour and not before",
        target(
            Phase(10, EVEN),
            Phase(
                40,
                Server(
                    workers=(
                        Worker(0.38 * 27.8, 0.5, 0.8),
                        Worker(0.22 * 27.8, 0.4, 0.5),
                        Worker(0.21 * 27.8, 0.4, 0.5),
                        Worker(0.19 * 27.8, 0.4, 0.5),
                    )
                ),
            ),
        ),
        {"24m": []},
        {"45m": 1},
    ),
    Case(
        f"{UNEVEN}: boundary: under its noise floor a hot ratio of 1.7 is chance",
        steady(
            Server(
                workers=(
                    Worker(0.43 * 0.1, 60, 0.6),
                    Worker(0.20 * 0.1, 60, 0.2),
                    Worker(0.19 * 0.1, 60, 0.2),
                    Worker(0.18 * 0.1, 60, 0.2),
                )
            )
        ),
        {"40m": []},
    ),
    Case(
        f"{UNEVEN}: boundary: with a fifth of the threads busy and 0.48 of a CPU in the hot worker it is no ticket",
        steady(
            Server(
                workers=(
                    Worker(0.43 * 20, 0.32, 0.48),
                    Worker(0.20 * 20, 0.32, 0.2),
                    Worker(0.19 * 20, 0.32, 0.2),
                    Worker(0.18 * 20, 0.32, 0.2),
                )
            )
        ),
        {"40m": []},
    ),
    Case(
        f"{UNEVEN}: boundary: with a quarter of the threads busy it is a ticket, although CPU time is not known",
        steady(
            Server(
                workers=(
                    Worker(0.43 * 20, 0.42, 0.48),
                    Worker(0.20 * 20, 0.41, 0.2),
                    Worker(0.19 * 20, 0.40, 0.2),
                    Worker(0.18 * 20, 0.40, 0.2),
                ),
                host=False,
            )
        ),
        count={"40m": 1},
    ),
    Case(
        f"{UNEVEN}: fires: 43 % on one of four workers",
        steady(STORY),
        {"14m": [], "40m": [uneven_ticket(**TARGET)]},
    ),
    Case(
        f"{UNEVEN}: counter reset: a full reload and a respawn do not hide it",
        target(Phase(30, STORY), Phase(15, STORY, reload=True), Phase(15, STORY, respawned=(2,))),
        {time: [uneven_ticket(**TARGET)] for time in ("29m", "44m", "59m")},
        {f"{minute}m": 1 for minute in range(29, 60)},
    ),
    Case(
        f"{UNEVEN}: counter reset: neither a full reload nor respawns make an even server look uneven",
        target(Phase(20, EVEN), Phase(20, EVEN, reload=True), Phase(20, EVEN, respawned=(2,))),
        {"25m": [], "39m": [], "59m": []},
    ),
    Case(
        f"{UNEVEN}: missing server: when the server is gone the ticket resolves",
        target(Phase(30, STORY), Phase(30, None)),
        {"29m": [uneven_ticket(**TARGET)], "50m": []},
    ),
    Case(
        f"{UNEVEN}: missing server: with neither threads nor CPU time nothing is known of the load",
        target(Phase(40, Server(workers=STORY.workers, host=False, cores=False))),
        {"40m": []},
    ),
    Case(
        f"{UNEVEN}: duplicate series: a server that two exporters watch is a ticket for each, with its own figures",
        [
            *target(Phase(40, STORY)),
            *target(Phase(40, STORY), **OTHER),
        ],
        {"40m": [uneven_ticket(**TARGET), uneven_ticket(**OTHER)]},
    ),
    Case(
        f"{UNEVEN}: duplicate series: of servers that differ in a label of Prometheus alone, each has its own figures",
        [*target(Phase(40, STORY), **NORTH), *target(Phase(40, EVEN), **SOUTH)],
        {"40m": [uneven_ticket(**NORTH)]},
    ),
]
