"""A mean request's time is split into named parts, largest first."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.documents_with_times import KNOWN_WAITS, waits
from uwsgi_headroom.documents.request_time import describe_destinations, split_request_time
from uwsgi_headroom.documents.schema import Flow
from uwsgi_headroom.documents.waits import Destination, Waits
from uwsgi_headroom.record import STATES
from uwsgi_headroom.words.states import WAITS


def _described(section: Waits) -> tuple[str, list[str]]:
    time = split_request_time(section)
    assert time
    return f"{time.whole.size} {time.unit}", [f"{part.size} {part.backend or part.state}" for part in time.parts]


def test_the_largest_part_comes_first_and_small_ones_are_summed() -> None:
    """Parts below 3 % are one part, which is last even if another is smaller."""
    assert _described(KNOWN_WAITS) == (
        "89 ms per request",
        ["41 ms postgres", "22 ms interpreter_lock", "18 ms cpu", "5.0 ms cpu_wait", "3.0 ms other"],
    )


def test_the_parts_add_up() -> None:
    """No time is lost or counted twice, whether backends have names or not."""
    for names in ({}, {"postgres": 2.0}, {"postgres": 2.0, "redis": 2.1}):
        time = split_request_time(waits({"cpu": 1.0, "backend": 4.1, "dns": 0.01}, names))
        assert time
        assert sum(part.threads for part in time.parts) == pytest.approx(5.11)
        assert sum(part.per_request or 0.0 for part in time.parts) == pytest.approx(0.0511)


def test_a_backend_without_a_name_is_a_part_of_its_own() -> None:
    """The state is split into configured backends and the rest."""
    parts = _described(waits({"backend": 4.0, "sleep": 3.0}, {"postgres": 1.0}))[1]
    assert parts == ["30 ms backend", "30 ms sleep", "10 ms postgres"]


def test_without_completed_requests_the_parts_are_threads() -> None:
    """Requests that never end have no time per request, but their threads show what they wait for."""
    described = _described(waits({"backend": 7.9, "cpu": 0.4}, {"postgres": 7.9}, throughput=None))
    assert described == ("8.3 threads, no request completed", ["7.9 postgres", "0.4 cpu"])


def test_static_files_have_no_time() -> None:
    """uWSGI counts them and times none: threads that send files are named as such, and a figure of 0 is not shown."""
    flow = Flow(requests=468, throughput=39.1, response_time=None, littles_law=0.0, observed=0.04, queue_wait=0.0)
    few, many = (waits({"pipe": threads}, throughput=None) for threads in (0.04, 4.0))
    assert split_request_time(few, flow) is None
    time = split_request_time(many, flow)
    assert time
    assert (time.whole.size, time.unit) == ("4.0", "threads, and uWSGI does not time static files")


def test_requests_that_last_hide_those_that_are_completed() -> None:
    """Fourteen WebSockets beside a few requests: it is said whose threads these are, and files have no part in it."""
    flow = Flow(requests=36, throughput=3.0, response_time=0.05, littles_law=0.15, observed=14.2, queue_wait=0.0)
    section = waits({"client": 14.0, "sleep": 0.2}, throughput=None)
    time = split_request_time(msgspec.structs.replace(section, lasting=14.05), flow)
    assert time
    assert (time.whole.size, time.unit) == ("14.2", "threads, mostly of requests that last")


def test_without_a_request_in_service_there_is_nothing_to_split() -> None:
    """An idle server has no parts."""
    assert split_request_time(waits({})) is None


def test_every_state_has_a_label() -> None:
    """Labels are in the order of the states, and differ."""
    assert tuple(WAITS) == STATES
    assert len({state.name for state in WAITS.values()}) == len(STATES)


def outside(*found: tuple[str, str, str, float], throughput: float | None = 100.0) -> Waits:
    """A section with these destinations: state, name, address and mean threads."""
    threads = sum(each[3] for each in found)
    section = waits({"backend": threads}, throughput=throughput)
    destinations = [
        Destination(
            state=state,  # type: ignore[arg-type]
            name=name,
            address=address,
            threads=number,
            per_request=number / throughput if throughput else None,
            connecting=0.0,
        )
        for state, name, address, number in found
    ]
    return msgspec.structs.replace(section, destinations=tuple(destinations))


POSTGRES, REDIS = ("backend", "postgres", "10.0.0.5:5432"), ("backend", "redis", "10.0.0.6:6379")


@pytest.mark.parametrize(
    ("section", "texts"),
    [
        (
            outside((*POSTGRES, 18.0), (*REDIS, 2.1)),
            ["backend 201 ms: postgres at 10.0.0.5:5432 180 ms, redis at 10.0.0.6:6379 21 ms"],
        ),
        (outside((*POSTGRES, 18.0)), ["backend 180 ms: postgres at 10.0.0.5:5432"]),
        (outside((*POSTGRES, 3.0), throughput=None), ["backend 3.0: postgres at 10.0.0.5:5432"]),
        (
            outside((*POSTGRES, 4.0), ("backend", "", "", 1.0), ("dns", "DNS", "10.0.0.2:53", 0.5)),
            ["backend 50 ms: postgres at 10.0.0.5:5432 40 ms, not known 10 ms", "DNS 5.0 ms: 10.0.0.2:53"],
        ),
        (
            outside(*(("backend", "", f"10.0.0.{place}:80", 1.0) for place in range(64))),
            ["backend 640 ms: 10.0.0.0:80 10 ms, 10.0.0.1:80 10 ms, 10.0.0.2:80 10 ms, others 610 ms"],
        ),
        (outside(("backend", "", "", 5.0)), []),
        (waits({"backend": 5.0}), []),
    ],
)
def test_what_requests_wait_for_outside(section: Waits, texts: list[str]) -> None:
    """By name and address, the largest first; without a name and an address there is nothing to say."""
    assert describe_destinations(section) == texts
