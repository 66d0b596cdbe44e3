"""The truth itself: a wrong truth would make correct figures look wrong, and wrong ones correct."""

import socket
import threading

import pytest

from tools.bench.accuracy.generator import Record, Truth, ask, mean_level

S = 1_000_000_000


def record(connected: float, enter: float, leave: float, end: float, worker: int = 1) -> Record:
    times = [round(seconds * S) for seconds in (connected, connected, enter, leave, leave, end)]
    return Record(*[*times, worker])


def test_mean_level() -> None:
    """Only parts within the window count, and overlaps add up."""
    intervals = [(0, 4 * S), (3 * S, 5 * S), (9 * S, 30 * S), (20 * S, 21 * S)]
    assert mean_level(intervals, (2, 12)) == pytest.approx((2 + 2 + 3) / 10)


def test_concurrency_and_waits() -> None:
    """The application's interval counts; the client's is longer by the queue and the way back."""
    truth = Truth((record(0, 2, 5, 6), record(1, 5, 6, 6.5, worker=2)))
    assert truth.in_application((0, 10)) == pytest.approx(0.4)
    assert truth.in_client((0, 10)) == pytest.approx(1.15)
    assert truth.wait((0, 10)) == pytest.approx(3)
    assert truth.client_time((0, 10)) == pytest.approx(5.75)
    assert truth.counts() == {1: 1, 2: 1}


def test_what_is_in_flight_has_not_completed() -> None:
    """Little's law counts a request when it ends, with all its time."""
    truth = Truth((record(0, 0, 30, 30),))
    assert truth.completed((0, 20)) == 0
    assert truth.in_application((0, 20)) == 1
    assert truth.completed((20, 40)) == pytest.approx(1.5)


def test_an_answer_of_somebody_else_is_no_completion() -> None:
    """A response that is not from the application raises an error, and counts as a failure."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.0 502 Bad Gateway\r\n\r\nok\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ValueError, match="not a response"):
            ask(listener.getsockname(), "/")
        thread.join()
