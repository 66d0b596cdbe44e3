"""A window ends with the totals that are exported beside it."""

from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.totals import Totals, WorkerTotals


def served(requests: int, workers: int = 1) -> Totals:
    return Totals(workers=[WorkerTotals(requests=requests, running_time=0.0) for _ in range(workers)])


def test_a_window_ends_with_the_latest_totals() -> None:
    """A window includes samples after the last row, less than a second ago."""
    history = History()
    for at, requests in ((0.0, 0), (1.0, 10), (2.0, 20), (2.4, 29)):
        history.add(at, served(requests))
    window = history.window(60)
    assert window is not None
    assert (window.seconds, window.workers[0].requests) == (2.4, 29)


def test_totals_of_an_earlier_time() -> None:
    """A sample that is recorded late does not shorten the window: its totals reach until the time before it."""
    history = History()
    for at, observed in ((0.0, 0.0), (1.4, 1.4), (1.3, 1.4)):
        history.add(at, Totals(observed_seconds=observed))
    window = history.window(60)
    assert window is not None
    assert (window.seconds, window.observed_seconds) == (1.4, 1.4)


def test_a_window_starts_at_the_row_nearest_to_its_length() -> None:
    """Rows are a second apart: the window is up to half a second longer or shorter than requested, and reports its
    length."""
    history = History()
    for at in range(10):
        history.add(float(at), served(at * 10))
    history.add(9.4, served(94))
    window = history.window(5)
    assert window is not None
    assert window.seconds == 9.4 - 4.0
    assert window.workers[0].requests == 54


def test_of_two_rows_that_are_as_near_the_older_one_is_taken() -> None:
    """Half a second to either side, the window is the longer one."""
    history = History()
    for at in range(10):
        history.add(float(at), served(at * 10))
    history.add(9.5, served(95))
    window = history.window(5)
    assert window is not None
    assert (window.seconds, window.workers[0].requests) == (5.5, 55)


def test_a_window_until_an_earlier_time_ends_with_a_row() -> None:
    """For an earlier time there are only rows."""
    history = History()
    for at, requests in ((0.0, 0), (1.0, 10), (2.0, 20), (2.4, 29)):
        history.add(at, served(requests))
    window = history.window(60, until=2.3)
    assert window is not None
    assert (window.seconds, window.workers[0].requests) == (2.0, 20)


def test_two_rows_are_needed() -> None:
    """Within the first second there is no window."""
    history = History()
    history.add(0.0, served(0))
    history.add(0.9, served(9))
    assert history.window(60) is None


def test_a_history_restarts_with_another_number_of_workers() -> None:
    """A row cannot be compared with totals of another number of workers, not even within the same second."""
    history = History()
    history.add(0.0, served(0))
    history.add(1.0, served(10))
    history.add(1.5, served(10, workers=2))
    assert history.window(60) is None
    history.add(2.5, served(20, workers=2))
    window = history.window(60)
    assert window is not None
    assert [worker.requests for worker in window.workers] == [10, 10]
