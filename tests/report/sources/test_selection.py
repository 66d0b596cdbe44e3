"""Choosing servers by name, and sentences about what is doubtful in their data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.support.synthetic import stories
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.report.columns import ServerData
from uwsgi_headroom.report.sources.selection import describe_clock, list_problems, refuse_too_many, select_servers


@dataclass(frozen=True)
class Known:
    """A server."""

    name: str
    service: str


FOUND = [Known("shop web1", "shop"), Known("shop web2", "shop"), Known("admin", "")]


def test_servers_and_services_add_up() -> None:
    """Without names, all are chosen."""
    assert select_servers(FOUND, [], []) == FOUND
    assert select_servers(FOUND, ["admin"], ["shop"]) == FOUND
    assert select_servers(FOUND, [], ["shop"]) == FOUND[:2]


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    """A misspelt name must not give an empty report."""
    with pytest.raises(HeadroomError, match="no service shopp in this range; did you mean shop") as caught:
        select_servers(FOUND, [], ["shopp"])
    assert caught.value.details == ["It has: shop"]


def servers() -> list[ServerData]:
    """Two servers of one service over four days."""
    return list(make_review_data(stories.story(days=4)).servers[:2])


def only(server: ServerData, first: int, last: int, **changes: object) -> ServerData:
    """A server that has data for some quarters only."""
    requests = np.full_like(server.requests, np.nan)
    requests[first:last] = server.requests[first:last]
    return replace(server, requests=requests, **changes)  # type: ignore[arg-type]


def test_complete_data_has_no_problems() -> None:
    """Nothing is said about equal servers of different hosts either."""
    assert list_problems(servers(), "UTC") == []


def test_missing_data() -> None:
    """How much, and where the rest is, in local time."""
    one, two = servers()
    problems = list_problems([only(one, 96, 288), only(two, 0, 0)], "Europe/Berlin")
    assert problems[0] == (
        "shop-1: no data for 2 d of 4 d; it has data from 2026-09-25 02:00 to 2026-09-27 02:00, 100 % of that time."
    )
    assert problems[1].startswith("shop-2: no quarter of an hour")


def test_a_renamed_server() -> None:
    """One ends where another begins, of the same service or host."""
    one, two = servers()
    problems = list_problems([only(one, 0, 200), only(two, 201, 384)], "UTC")
    assert any(text.startswith("shop-1 ends and shop-2 begins around 2026-09-26 02:00") for text in problems)


def test_pods_are_not_listed_one_by_one() -> None:
    """A rolling deployment replaces all of them at once."""
    one, _two = servers()
    old = [only(replace(one, server=f"old-{place}"), 0, 200) for place in range(4)]
    new = [only(replace(one, server=f"new-{place}"), 201, 384) for place in range(4)]
    problems = [text for text in list_problems([*old, *new], "UTC") if "begin" in text]
    assert len(problems) == 4
    assert problems[-1] == "13 more pairs of servers end and begin like that, as pods do."


def test_too_many_servers_are_refused() -> None:
    """Before memory runs out."""
    refuse_too_many(FOUND * 30, 90 * 96)
    with pytest.raises(HeadroomError, match="120 servers over 90 days are too much at once: choose up to 115"):
        refuse_too_many(FOUND * 40, 90 * 96)


def test_a_server_that_is_recorded_twice() -> None:
    """Its load would count twice."""
    one, two = servers()
    other = replace(two, host=one.host, requests=1.001 * one.requests)
    problems = list_problems([one, other], "UTC")
    assert list_problems([one, replace(other, busy=2 * one.busy)], "UTC") == []
    assert len(problems) == 1
    assert "choose one of the two with --server" in problems[0]


def test_clocks_apart() -> None:
    """Less than a minute does not matter."""
    assert describe_clock(-59.0, "Prometheus") == ""
    assert describe_clock(-600.0, "Prometheus").startswith("The clock of Prometheus is 10 min behind this machine's.")
