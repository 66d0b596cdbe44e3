"""Builds windows for tests from a length and the work of each worker."""

from collections.abc import Mapping

from uwsgi_headroom.analysis.percentiles import Percentile, ResponseTimes
from uwsgi_headroom.history.window import CpuWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.record import State


def worker(
    worker_id: int,
    requests: int,
    *,
    each: float | None = 0.1,
    cpu: float | None = None,
    busy: float | None = None,
    static: int = 0,
    up: float | None = None,
    respawns: int = 0,
    lost: int = 0,
    lock: float | None = None,
) -> WorkerWindow:
    """A worker's window: requests of `each` seconds in service; cpu, busy, lock, up are seconds. up: by default all."""
    return WorkerWindow(
        worker_id=worker_id,
        requests=requests,
        static_requests=static,
        running_time=None if each is None else each * (requests - static),
        busy_seconds=busy,
        up_seconds=float("inf") if up is None else up,
        cpu_seconds=cpu,
        respawns=respawns,
        lost=lost,
        resident_bytes=None,
        resident_growth=None,
        interpreter_lock_seconds=lock,
    )


def window(
    seconds: float,
    *workers: WorkerWindow,
    observed: float | None = None,
    cpu: tuple[float, float, float | None] | None = None,
    waits: Mapping[State, float] | None = None,
    backends: Mapping[str, float] | None = None,
    **queues: float,
) -> Window:
    """A window. observed: seconds covered by samples, by default all; queues: queue-length seconds by socket; cpu: CPUs
    in use by the workers, idle, and in use by others; waits: mean threads by state; backends: the same by name."""
    observed = seconds if observed is None else observed
    return Window(
        asked=seconds,
        seconds=seconds,
        until=seconds,
        observed_seconds=observed,
        full_seconds=0.0,
        gap_seconds=seconds - observed,
        reloads=0,
        exceptions=0,
        harakiris=0,
        respawns=sum(worker.respawns for worker in workers),
        overflows=None,
        workers=workers,
        queue_seconds=queues,
        queue_full_seconds=dict.fromkeys(queues, 0.0),
        occupancy=(0,) * 12,
        configured=None,
        available=None,
        cpu=cpu
        and CpuWindow(seconds, seconds * cpu[0], seconds * cpu[1], None if cpu[2] is None else seconds * cpu[2]),
        waits=None
        if waits is None
        else WaitWindow(
            observed,
            0.0,
            {state: observed * threads for state, threads in waits.items()},
            {name: observed * threads for name, threads in (backends or {}).items()},
        ),
    )


def the_example() -> Window:
    """A minute of an uneven server, 4x8: 27.8 requests per second at 83 ms of interpreter time, 43 % of them in one
    worker whose 8 threads are full, with two in service in each of the other workers."""
    hot, cold = 717, 317
    return window(
        60.0,
        *(
            worker(worker_id, cold, each=2 * 60 / cold, cpu=cold * 0.0833, busy=2 * 60.0)
            if worker_id != 2
            else worker(worker_id, hot, each=8 * 60 / hot, cpu=hot * 0.0833, busy=8 * 60.0)
            for worker_id in (1, 2, 3, 4)
        ),
    )


def the_harmless_one() -> Window:
    """A measured server: shares of 33/26/23/18 %, interpreters at 0.37 at most, and response times equal within 3 %."""
    rows = ((660, 0.120, 0.37), (520, 0.119, 0.29), (460, 0.121, 0.26), (360, 0.1185, 0.20))
    return window(
        60.0,
        *(
            worker(worker_id, requests, each=each, cpu=60 * load, busy=requests * each)
            for worker_id, (requests, each, load) in enumerate(rows, 1)
        ),
    )


def by_share(times: ResponseTimes | None) -> dict[float, Percentile]:
    """The percentiles by the share of the requests that are not slower."""
    return {each.share: each for each in times.percentiles} if times else {}
