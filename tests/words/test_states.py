"""The tables of words have every state of their kind, words of their own, and colours that can be seen."""

from __future__ import annotations

from typing import get_args

import pytest

from uwsgi_headroom import record
from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.findings.kind import SEVERITIES
from uwsgi_headroom.analysis.verdict import Status
from uwsgi_headroom.analysis.what_if.predict import Resource
from uwsgi_headroom.documents import schema
from uwsgi_headroom.errors import REASONS
from uwsgi_headroom.journal.events import KINDS
from uwsgi_headroom.report.review.sections import Judgement
from uwsgi_headroom.stats.server import STATES as EVERY_WORKER_STATE
from uwsgi_headroom.words.colours import BACKENDS, PALETTE, contrast, ink_on
from uwsgi_headroom.words.states import (
    EVENTS,
    FAILURES,
    JUDGEMENTS,
    LIMITS,
    SERVER_STATES,
    STATUSES,
    WAITS,
    WORKERS,
    find_colour,
    list_colours,
)

GRAFANA = ("#ffffff", "#111217", "#181b1f")
"""The grounds of Grafana's panels, light and dark."""


def test_every_state_has_its_words() -> None:
    """A state that is added to the API is added to its table."""
    assert tuple(WAITS) == record.STATES
    assert set(LIMITS) == set(get_args(Limit))
    assert set(LIMITS) >= set(get_args(Resource))
    assert set(STATUSES) == {*get_args(Status), *SEVERITIES}
    assert set(SERVER_STATES) == {*get_args(schema.State), "paused", "lost"}
    assert set(WORKERS) == set(EVERY_WORKER_STATE)
    assert set(EVENTS) < set(KINDS)
    assert set(FAILURES) == set(REASONS)
    assert set(JUDGEMENTS) == set(get_args(Judgement))


def test_no_two_states_read_the_same() -> None:
    """Each has words and a colour of its own."""
    for words in (
        [state.does for state in WAITS.values()],
        [state.name for state in WAITS.values()],
        [state.short for state in WAITS.values()],
        [state.colour.light for state in WAITS.values()],
        [state.colour.dark for state in WAITS.values()],
        [limit.name for limit in LIMITS.values()],
        [limit.short for limit in LIMITS.values()],
        [limit.colour for limit in LIMITS.values()],
        [status.sign for status in STATUSES.values()],
        [state.name for state in WORKERS.values()],
        [state.narrow for state in WORKERS.values()],
    ):
        assert len(set(words)) == len(words)


def test_short_forms_fit_their_columns() -> None:
    """`check` has seven letters for the state of a worker, `top` has five."""
    assert max(len(state.short) for state in WORKERS.values()) <= 7
    assert max(len(state.narrow) for state in WORKERS.values()) <= 5


def test_a_worker_in_reserve_is_no_problem() -> None:
    """Its sign is not that of something critical."""
    assert STATUSES["critical"].sign not in {WORKERS["cheap"].sign, WORKERS["never_spawned"].sign}


def test_tones_are_in_the_palette() -> None:
    """Events, limits and judgements name colours that there are."""
    names = [*(entry.tone for entry in EVENTS.values()), *(entry.colour for entry in JUDGEMENTS.values())]
    assert set(names) <= set(PALETTE)
    assert {limit.colour for limit in LIMITS.values()} <= set(list_colours())


@pytest.mark.parametrize("ground", GRAFANA)
def test_a_dashboard_needs_one_colour_only(ground: str) -> None:
    """The light colours of states, named backends and limits have a contrast of 3 to 1 on both grounds of Grafana."""
    colours = [*(state.colour for state in WAITS.values()), *BACKENDS]
    colours += [find_colour(limit.colour) for limit in LIMITS.values()]
    assert {
        colour.light: contrast(colour.light, ground) for colour in colours if contrast(colour.light, ground) < 3
    } == {}


def test_text_on_a_colour_is_legible() -> None:
    """On every part of a bar it has a contrast of 4.5 to 1."""
    for colour in [*(state.colour for state in WAITS.values()), *BACKENDS, *PALETTE.values()]:
        for ground in (colour.light, colour.dark):
            assert contrast(ink_on(ground), ground) >= 4.5


def test_the_ratio_itself() -> None:
    """Black on white has 21, a colour on itself 1."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
    assert contrast("#123456", "#123456") == 1
