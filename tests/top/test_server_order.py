"""The order of the list, and its filter."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.top_screen import hot
from tools.support.scripted_watch import ScriptedWatch
from uwsgi_headroom.documents.build import build_server_list
from uwsgi_headroom.documents.schema import Summary
from uwsgi_headroom.top.servers import ServerEntry, arrange_entries, natural_key


@pytest.fixture(scope="module")
def summary() -> Summary:
    return build_server_list([hot()], ScriptedWatch().clock).servers[0]


def entry(summary: Summary, name: str, **changes: object) -> ServerEntry:
    return ServerEntry((0, name), msgspec.structs.replace(summary, name=name, **changes))


def names(entries: list[ServerEntry]) -> list[str]:
    return [each.summary.name for each in entries]


def test_names_are_in_natural_order(summary: Summary) -> None:
    """Numbers sort by value, letters regardless of case, digits of other scripts as text."""
    entries = [entry(summary, name) for name in ("shop10", "Shop2", "shop1", "10", "9", "a", "x\u00b2")]
    assert names(arrange_entries(entries, sort="name")) == ["9", "10", "a", "shop1", "Shop2", "shop10", "x\u00b2"]
    assert natural_key("a010b") < natural_key("a11b")


def test_the_worst_come_first(summary: Summary) -> None:
    """Servers sort by state (down, stale), then status, headroom and name."""
    entries = [
        entry(summary, "ok9", status="ok", headroom=9.0),
        entry(summary, "ok2", status="ok", headroom=2.0),
        entry(summary, "idle10", status="ok", headroom=None),
        entry(summary, "idle9", status="ok", headroom=None),
        entry(summary, "warns", status="warning", headroom=50.0),
        entry(summary, "burns", status="critical", headroom=None),
        entry(summary, "hangs", state="stale", status="unknown"),
        entry(summary, "gone", state="down", status="unknown", headroom=90.0),
    ]
    expected = ["gone", "hangs", "burns", "warns", "ok2", "ok9", "idle9", "idle10"]
    assert names(arrange_entries(entries)) == expected
    assert names(arrange_entries(entries, reverse=True)) == expected[::-1]


def test_figures_are_sorted_down_and_unknown_ones_come_last(summary: Summary) -> None:
    """Unknown figures come last in both directions."""
    entries = [entry(summary, str(rate), throughput=rate) for rate in (1.0, None, 3.0)]
    assert names(arrange_entries(entries, sort="throughput")) == ["3.0", "1.0", "None"]
    assert names(arrange_entries(entries, sort="throughput", reverse=True)) == ["1.0", "3.0", "None"]


@pytest.mark.parametrize(("text", "found"), [("WEB", ["web1"]), ("down", ["web1"]), ("critical", ["db"]), ("zz", [])])
def test_a_filter_matches_names_states_and_statuses(summary: Summary, text: str, found: list[str]) -> None:
    """The filter ignores case."""
    entries = [entry(summary, "web1", state="down", status="unknown"), entry(summary, "db")]
    assert names(arrange_entries(entries, text)) == found
