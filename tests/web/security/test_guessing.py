"""Guessing of passwords: what is slowed down, and by how much."""

import asyncio
import itertools
import selectors
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from tests.web.security.secure_server import HASH, PASSWORD
from tests.web.security.test_login import header
from uwsgi_headroom.web.security import login
from uwsgi_headroom.web.security.login import REPEATED_REST, Checked, Login, PasswordChecker, Throttle

USERS = {b"prometheus": HASH.encode()}
TIMEOUT, INTERVAL = 4.0, 5.0
"""Of scrapes, in seconds."""


class _Jump(selectors.DefaultSelector):
    """Does not wait for the next timer but moves the loop's clock to it."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes at once."""

    def __init__(self) -> None:
        self.jump = _Jump()
        super().__init__(self.jump)

    def time(self) -> float:
        return self.jump.now


class SimulatedChecker(PasswordChecker):
    """Takes `seconds` of CPU for each password, one at a time, and counts them."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.used = seconds, 0.0

    def check(self, password: bytes, stored: bytes, *, repeated: bool) -> asyncio.Future[Checked]:
        async def compare() -> Checked:
            self.used += self.seconds
            await asyncio.sleep(self.seconds)
            return Checked(password == PASSWORD.encode(), self.seconds)

        return asyncio.ensure_future(compare())


async def guess(login: Login, clients: Sequence[str], rate: float, times: int) -> None:
    """Send `rate` logins a second, from each client in turn, each login `times` times."""
    waiting = set()
    for number in itertools.count():
        which = number // times
        verdict = login.judge(USERS, header("prometheus", f"guess {which}"), clients[which % len(clients)])
        waiting.add(task := asyncio.ensure_future(verdict))
        task.add_done_callback(waiting.discard)
        await asyncio.sleep(1 / rate)


async def scrape(login: Login, client: str) -> tuple[int, float]:
    """Send the right login as Prometheus does until it is accepted: how many times, and the seconds of the last."""
    time = asyncio.get_running_loop().time
    for tries in range(1, 7):
        began = time()
        try:
            verdict = await asyncio.wait_for(login.judge(USERS, header("prometheus", PASSWORD), client), TIMEOUT)
            if verdict.status == 200:
                return tries, time() - began
        except asyncio.TimeoutError:
            pass
        await asyncio.sleep(max(0.0, began + INTERVAL - time()))
    raise AssertionError("the right login is locked out")


def simulate(
    client: str, guessers: Sequence[str], *, rate: float, seconds: float, times: int = 1
) -> tuple[int, float, float]:
    """Tries until the right login is accepted, seconds of the last one, and the number of checks beyond a quarter of a
    CPU. seconds: of a check."""

    async def main() -> tuple[int, float, float]:
        checker, loop = SimulatedChecker(seconds), asyncio.get_running_loop()
        login = Login(checker, loop.time)
        guessing = asyncio.ensure_future(guess(login, guessers, rate, times))
        await asyncio.sleep(1)
        tries, wait = await scrape(login, client)
        guessing.cancel()
        login.close()
        return tries, wait, checker.used / seconds - loop.time() / 4 / seconds

    return run_simulated(main())


def run_simulated(main: Coroutine[Any, Any, tuple[int, float, float]]) -> tuple[int, float, float]:
    loop = SimulatedLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


MANY = [f"10.0.{number >> 8}.{number & 255}" for number in range(1000)]


@pytest.mark.parametrize(("seconds", "rate"), [(0.06, 50), (0.25, 500), (0.5, 1000)], ids=["cost 10", "12", "13"])
@pytest.mark.parametrize("guessers", [["10.9.9.9"], MANY], ids=["its own client", "1000 clients"])
def test_a_right_login_gets_in_with_its_second_try(seconds, rate, guessers):
    """While others guess at any rate, from wherever, also behind the same proxy: in less than ten seconds then."""
    tries, wait, beyond = simulate("10.9.9.9", guessers, rate=rate, seconds=seconds)
    assert tries <= 2
    assert wait <= seconds
    assert beyond <= 3  # its own one, and two that have not had their rest yet


@pytest.mark.parametrize("guessers", [["10.9.9.8"], MANY[:4]], ids=["one", "four"])
def test_guesses_that_are_repeated_too(guessers):
    """They delay other clients by one check for each client that does so, and no more."""
    tries, wait, _ = simulate("10.9.9.9", guessers, rate=500, seconds=0.25, times=2)
    assert tries <= 2
    assert wait <= (len(guessers) + 2) * 0.25 * (1 + REPEATED_REST)


@pytest.mark.parametrize("seconds", [0.06, 0.25, 0.5], ids=["cost 10", "12", "13"])
@pytest.mark.parametrize("times", [2, 6], ids=["twice", "six times"])
@pytest.mark.parametrize("guessers", [["10.9.9.9"], MANY[:50], MANY], ids=["its own client", "50", "1000 clients"])
def test_guesses_that_are_repeated_at_once_are_younger(seconds, times, guessers):
    """The right login was sent before them, so it is accepted within 25 seconds."""
    tries, wait, beyond = simulate("10.9.9.9", guessers, rate=100, seconds=seconds, times=times)
    assert (tries - 1) * INTERVAL + wait <= 25
    assert beyond <= 3


@pytest.mark.parametrize("seconds", [0.001, 0.25, 8.0, 64.0])
def test_guessing_takes_a_quarter_of_a_cpu_at_most(seconds):
    """Whatever the cost of the hashes; and there are four guesses a second at most."""

    async def main():
        checker, loop = SimulatedChecker(seconds), asyncio.get_running_loop()
        login = Login(checker, loop.time)
        guessing = asyncio.ensure_future(guess(login, MANY, 8, 2))
        await asyncio.sleep(60 + 20 * seconds)
        guessing.cancel()
        login.close()
        return round(checker.used / seconds), loop.time(), seconds

    checks, passed, _ = run_simulated(main())
    assert 3 < checks <= 2 + passed / max(0.25, 4 * seconds)


def test_who_fails_waits_longer_each_time_and_is_forgotten():
    """The wait doubles from a second to half a minute; five minutes without a failure end it."""
    clock = [0.0]
    waits = Throttle(lambda: clock[0])
    seen = []
    for _ in range(10):
        waits.record_failure("a")
        seen.append(waits.seconds_to_wait("a"))
    assert seen == [0, 0, 1, 2, 4, 8, 16, 30, 30, 30]
    assert waits.seconds_to_wait("b") == 0
    shorter = Throttle(lambda: clock[0], longest=4)
    for _ in range(10):
        shorter.record_failure("a")
    assert shorter.seconds_to_wait("a") == 4
    clock[0] = login.FORGET_SECONDS + 1
    waits.record_failure("a")
    assert waits.seconds_to_wait("a") == 0


def test_few_clients_are_remembered(monkeypatch):
    monkeypatch.setattr(login, "MOST_CLIENTS", 2)
    waits = Throttle(lambda: 0.0)
    for name in "aaaabbbbcccc":
        waits.record_failure(name)
    assert [waits.seconds_to_wait(name) > 0 for name in "abc"] == [False, True, True]
