"""Workers that a limit of requests or of memory replaces, and a reload that ends requests: one cause for each."""

from tests.analysis.judging import describe
from tests.support.simulated_server import EPOCH, Server


def recycled(server: Server, served: int, spawned: tuple[int, ...]) -> None:
    """Each worker has ended once, after so many requests, and was spawned again at these seconds."""
    for slot, second in zip(server.slots, spawned, strict=True):
        slot.requests, slot.before_spawn, slot.respawns = served + 10, served, 2
        slot.last_spawn = EPOCH + second


def test_requests_per_life():
    """It is the mean of the processes that ended; unknown until one has."""
    server = Server(processes=4)
    recycled(server, 90, (1, 1, 1, 1))
    lives = [[worker.requests_per_life for worker in describe(each).workers] for each in (server, Server(processes=1))]
    assert lives == [[90.0] * 4, [None]]
