"""Lines of code: counted for windows and for counters, whatever an application makes up."""

import random
from itertools import pairwise

import pytest

from uwsgi_headroom.history.code_time import MOST_IN_SLICE, MOST_SERIES, OTHER, CodeHistory, CodePlace
from uwsgi_headroom.record import OUTSIDE, STATES, CodeLook, CodeSight, Line, State

LONGEST_STEP = 3.0


def sight(name: str, state: State = "backend", address: str = "", part: float = 1.0, number: int = 3) -> CodeSight:
    return CodeSight(1, 100, Line(name, "/srv/shop.py", number), state, address, part)


def look(*sights: CodeSight, changed: int = 0) -> CodeLook:
    return CodeLook(None, sights, changed, 0.004)


def test_a_window_has_its_looks_alone():
    """Shares are those of the window, to within a slice; what it cannot name counts as well, and old looks do not."""
    history = CodeHistory(300.0)
    for second in range(600):
        at = float(second)
        if second < 540:
            history.add(at, look(sight("old")), LONGEST_STEP)
        else:
            unread = sight("x")._replace(line=None)
            outside = sight("x", "cpu")._replace(line=OUTSIDE)
            history.add(at, look(sight("new", address="10.0.0.5:5432"), outside, unread, changed=1), LONGEST_STEP)
    minute = history.of(540.0, 600.0)
    assert (minute.off, minute.looks, minute.threads, minute.unread, minute.changed) == (None, 60, 180, 60, 60)
    assert [(use.line.function, use.looks) for use in minute.lines] == [("new", 60), ("", 60)]
    assert minute.lines[0].addresses == {"10.0.0.5:5432": 60}
    assert minute.cpu_seconds == pytest.approx(60 * 0.004)
    assert 300 <= history.of(0.0, 600.0).seconds <= 330, "no more is kept than was asked for"


def test_why_nothing_is_known():
    """The reason is there if nothing was looked at, and while more looks failed than saw a busy thread."""
    history = CodeHistory()
    assert history.of(0.0, 60.0).off == "no thread was looked at yet"
    history.add(1.0, look(), LONGEST_STEP)
    assert history.of(0.0, 60.0).off is None
    history.add(2.0, CodeLook(off="no right"), LONGEST_STEP)
    assert history.of(0.0, 60.0).off == "no right"
    history.add(3.0, look(sight("a")), LONGEST_STEP)
    assert history.of(0.0, 60.0).off is None
    assert history.totals.observed_seconds == 0, "a look after one that failed stands for no time"


def test_counters_add_up_to_the_concurrency():
    """Together they have all thread seconds; a look stands for the time since the one before, but for no gap."""
    history = CodeHistory()
    for at in (0.0, 1.0, 2.5, 60.0, 61.0):
        history.add(at, look(sight("a", part=0.25), sight("a", "cpu", part=0.75), sight("b")), LONGEST_STEP)
    assert history.totals.observed_seconds == pytest.approx(1 + 1.5 + 1)
    assert sum(history.totals.seconds.values()) == pytest.approx(2 * 3.5)


def test_series_are_few_and_stay():
    """An application that makes up functions gets 33 series at most; of two hundred functions, those that are seen
    most have them, and small changes of their shares change none. A line that moves is no new series."""
    chance = random.Random(7)
    history = CodeHistory(300.0)
    for second in range(600):
        seen = [sight(f"made_up_{second}_{place}", chance.choice(STATES)) for place in range(20)]
        seen += [
            each._replace(line=Line(OTHER, f"/srv/{second}_{place}.py", 3)) for place, each in enumerate(seen[:10])
        ]
        history.add(float(second), look(*seen), LONGEST_STEP)
    assert len(history.totals.seconds) <= MOST_SERIES + len(STATES)
    assert max(len(each.known) for each in list(history._slices)[:-1]) <= MOST_IN_SLICE

    names = [f"f{place}" for place in range(200)]
    weights = [1 / (1 + place) for place in range(200)]
    places: list[set[CodePlace]] = []
    for second in range(600, 2400):
        seen = [sight(name, number=second) for name in chance.choices(names, weights, k=10)]
        history.add(float(second), look(*seen), LONGEST_STEP)
        if second >= 1200 and second % 60 == 0:
            places.append({place for place in history.totals.seconds if not place.is_rest})
    assert {f"f{place}" for place in range(8)} <= {place.function for place in places[-1]}
    new = [len(after - before) for before, after in pairwise(places)]
    assert sum(new) <= 0.2 * len(new), "a series in five minutes"
