"""A what-if document of a made-up server, for the page."""

from msgspec.structs import replace

from uwsgi_headroom.analysis.what_if.predict import ModelCheck, PredictedLoad, PredictedSetting, WhatIf

PEAK = 240.0
PRESENT = (4, 8)
PROCESSES, THREADS = (2, 4, 6, 8), (4, 8, 16)
EACH = 80.0
"""Requests per second that a process serves at most."""
MOST_PROCESSES = 6
"""That fit into memory."""
ERROR = -0.08


def setting(processes: int, threads: int) -> PredictedSetting:
    """A setting whose time is 50 ms, more the busier its processes are."""
    most = EACH * processes
    return PredictedSetting(
        setting=f"{processes}x{threads}",
        processes=processes,
        threads=threads,
        is_observed=(processes, threads) == PRESENT,
        most_throughput=most,
        limit="interpreters" if threads > 4 else "threads",
        loads=tuple(_load(load, most, threads) for load in (1.0, 1.5)),
        memory=processes * 400e6,
        fits=processes <= MOST_PROCESSES,
        memory_sentence=None if processes <= MOST_PROCESSES else f"{processes - 4} more workers do not fit.",
    )


def _load(load: float, most: float, threads: int) -> PredictedLoad:
    busy = min(1.0, load * PEAK / most)
    serves = busy < 1
    time = 0.05 / (1 - busy / 2) + 0.0001 * threads if serves else None
    return PredictedLoad(
        load=load,
        throughput=load * PEAK,
        sustained=serves,
        response_time=time,
        queue_wait=0.0 if serves else None,
        total_time=time,
        threads=busy / 2,
        interpreters=busy,
        cpu=busy / 3,
    )


def document(error: float | None = ERROR) -> WhatIf:
    """The whole grid. error: of the model's response time."""
    grid = tuple(setting(processes, threads) for processes in PROCESSES for threads in THREADS)
    check = ModelCheck(
        throughput=PEAK,
        response_time=0.075,
        predicted_throughput=PEAK,
        predicted_response_time=0.069,
        throughput_error=None,
        response_time_error=error,
        sentence="The model has a response time of 69 ms, 8 % below the 75 ms observed.",
    )
    return WhatIf(
        name="shop",
        time=1.8e9,
        setting="{}x{}".format(*PRESENT),
        seconds=300.0,
        peak=PEAK,
        demands_measured=True,
        check=check,
        today=setting(*PRESENT),
        predictions=grid,
        cautions=("Requests wait 60 % of their time for backends.",),
    )


def cut_off() -> WhatIf:
    """The same, of a server whose listen queue was full: throughputs, and no times."""
    whole = document()
    assert whole.today is not None
    today, *predictions = (_without_times(each) for each in (whole.today, *whole.predictions))
    return replace(whole, peak_is_floor=True, today=today, predictions=tuple(predictions))


def _without_times(prediction: PredictedSetting) -> PredictedSetting:
    unknown = dict.fromkeys(("response_time", "queue_wait", "total_time"))
    loads = tuple(replace(at, **unknown) for at in prediction.loads)
    return replace(prediction, loads=loads)
