"""A journal: its order, its bounds, and events that are joined."""

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.events import JOIN_SECONDS, KINDS, MOST_EVENTS, Journal


def titles(journal):
    return [event.title for event in journal.latest(MOST_EVENTS)]


def test_the_newest_comes_first():
    """Ids grow in the order of adding; an event that was noticed late is sorted in by its time."""
    journal = Journal()
    journal.add(10.0, "reload", "a")
    journal.add(30.0, "reload", "b")
    journal.add(20.0, "verdict_changed", "late")
    assert titles(journal) == ["b", "late", "a"]
    assert [event.id for event in journal.latest(2)] == [2, 3]
    assert [event.title for event in journal.since(20.0)] == ["b", "late"]
    assert journal.latest_of("reload").title == "b"
    assert journal.latest_of("server_down") is None


def test_repeated_events_are_joined():
    """The ends of a worker that keeps crashing are one event with a count."""
    journal = Journal()
    for second in range(100):
        journal.add(float(second), "worker_ended", f"end {second}", workers=(1,), cause="unknown", count=2)
        journal.add(float(second), "worker_ended", "other", workers=(2,), cause="unknown")
    one, other = (event for event in journal.latest(9))
    assert (other.title, other.time, other.since, other.count) == ("end 99", 99.0, 0.0, 200)
    assert (one.workers, one.count) == ((2,), 100)
    assert journal.counts["worker_ended"] == 300
    journal.add(100.0 + JOIN_SECONDS, "worker_ended", "later", workers=(1,), cause="unknown")
    assert len(journal.latest(9)) == 3


def test_another_cause_or_kind_is_a_new_event():
    """Each change of verdict or configuration, and each reload, is an event of its own, too."""
    journal = Journal()
    journal.add(1.0, "worker_ended", "a", workers=(1,), cause="unknown")
    journal.add(2.0, "worker_ended", "b", workers=(1,), cause="harakiri")
    for kind in ("verdict_changed", "configuration_changed", "reload", "reload"):
        journal.add(3.0, kind, kind)
    assert len(journal.latest(99)) == 6


def test_the_journal_is_bounded():
    """The journal is bounded in number, and to the time that the history covers."""
    journal = Journal()
    for number in range(MOST_EVENTS + 5):
        journal.add(float(number), "reload", str(number))
    assert len(titles(journal)) == MOST_EVENTS
    assert titles(journal)[-1] == "5"
    journal.add(MOST_EVENTS + HISTORY_SECONDS + 1.0, "reload", "last")
    assert titles(journal) == ["last", *(str(number) for number in range(MOST_EVENTS + 4, MOST_EVENTS, -1))]
    assert journal.counts["reload"] == MOST_EVENTS + 6


def test_every_kind_is_counted_from_the_start():
    """Counts of every kind exist from the start, so that Prometheus sees the first event."""
    assert Journal().counts == dict.fromkeys(KINDS, 0)


def test_an_event_is_not_joined_with_one_of_a_clock_that_was_ahead():
    """It would begin in the future. Later ones are joined with each other all the same."""
    journal = Journal()
    for time in (5e8, 1000.0, 1010.0):
        journal.add(time, "worker_ended", "Worker 1 ended.", workers=[1])
    assert [(event.since, event.time, event.count) for event in journal.latest(9)] == [(5e8, 5e8, 1), (1000, 1010, 2)]
