"""Answers are built once for all requests that want them, given up when all have left, and bounded."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from tests.support.cancellation import cancelled_everywhere
from tests.support.simulated_server import MovableClock
from uwsgi_headroom.web import bounds, shared_builds
from uwsgi_headroom.web.request_values import RefusedError
from uwsgi_headroom.web.shared_builds import AGAIN, Body, BuildKind, SharedBuilds

KIND = BuildKind("documents", rest=2.0, most=4, seconds=3600.0)


class Builder:
    """Builds answers that are numbers: counts builds that began, run and were cancelled. `state` changes them; `held`
    holds them; `seconds` of a movable clock pass in each."""

    def __init__(self) -> None:
        self.clock = MovableClock()
        self.builds = SharedBuilds(self.clock.clock, lambda: self.reload)
        self.begun = self.running = self.most_running = self.cancelled = 0
        self.state: object = 1
        self.reload = 1
        self.error: Exception | None = None
        self.held: asyncio.Event | None = None
        self.seconds = 0.0
        self.size = 0

    async def ask(self, key: object = "key", request: Request | None = None, kind: BuildKind = KIND) -> Body:
        return await self.builds.get(kind, key, lambda: self.state, self.build, request)

    async def build(self) -> bytes:
        self.begun += 1
        number = self.begun
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.held:
                await self.held.wait()
            self.clock.move(self.seconds)
            if self.error:
                raise self.error
            return b"%d" % number + bytes(self.size)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1


class Client:
    """A request whose client leaves at a set moment."""

    def __init__(self) -> None:
        self.leaves = asyncio.Event()
        self.request = Request({"type": "http", "method": "GET", "path": "/", "headers": []}, self._receive)
        self._messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def _receive(self) -> Any:
        if self._messages:
            return self._messages.pop()
        await self.leaves.wait()
        return {"type": "http.disconnect"}


@pytest.fixture
def builder():
    return Builder()


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0)


async def test_built_once_for_each_state(builder):
    """Equal requests, simultaneous or later, get one answer, until the state of the server is another."""
    answers = await asyncio.gather(*(builder.ask() for _ in range(200)))
    assert {answer.plain for answer in answers} == {b"1"}
    assert (await builder.ask()).plain == b"1"
    assert (await builder.ask("another")).plain == b"2"
    builder.state = 2
    assert (await builder.ask()).plain == b"3"
    assert builder.begun == 3


async def test_no_answer_is_kept_for_long(builder):
    await builder.ask(kind=BuildKind("scrapes", rest=0.0, most=1, seconds=0.001))
    while builder.builds._kept:  # noqa: ASYNC110 - a timer of the event loop drops it
        await asyncio.sleep(0.001)


async def test_a_request_after_a_change_joins_no_build_from_before(builder):
    """It gets the next answer, with all others that came after the change; a build that only waits is joined."""
    builder.held = asyncio.Event()
    first = asyncio.create_task(builder.ask())
    await until(lambda: builder.begun)
    builder.state = 2
    later = [asyncio.create_task(builder.ask()) for _ in range(50)]
    await asyncio.sleep(0)
    builder.state = 3  # the second build has not begun
    later.append(asyncio.create_task(builder.ask()))
    await asyncio.sleep(0)
    builder.held.set()
    assert (await first).plain == b"1"
    assert {answer.plain for answer in await asyncio.gather(*later)} == {b"2"}
    assert (builder.begun, builder.most_running) == (2, 1)


async def test_a_server_that_changes_at_every_request(builder):
    """A new answer is built once the last one is some times older than its build took, and at once after that."""
    builder.seconds = 1.0
    for expected, moved in ((b"1", 0.0), (b"1", AGAIN - 0.1), (b"2", 0.2), (b"2", 0.5)):
        builder.state = object()
        builder.clock.move(moved)
        assert (await builder.ask(kind=BuildKind("scrapes", rest=0.0, most=4, seconds=3600.0))).plain == expected


async def test_no_answer_from_before_a_reload_is_given_after_it(builder):
    """A request after a reload gets an answer that was built after it, however young the kept answer is, and joins no
    build that has begun before."""
    kind = BuildKind("scrapes", rest=0.0, most=4, seconds=3600.0)

    builder.seconds = 1.0  # so the answer is given again for seconds after a reading
    assert (await builder.ask(kind=kind)).plain == b"1"
    builder.state = 2
    assert (await builder.ask(kind=kind)).plain == b"1"
    builder.reload = 2
    assert (await builder.ask(kind=kind)).plain == b"2"
    assert (await builder.ask(kind=kind)).plain == b"2"
    builder.held = asyncio.Event()
    builder.reload = 3
    before = asyncio.create_task(builder.ask(kind=kind))
    await until(lambda: builder.running)
    builder.reload = 4
    after = asyncio.create_task(builder.ask(kind=kind))
    await asyncio.sleep(0)
    builder.held.set()
    assert [(await before).plain, (await after).plain] == [b"3", b"4"]


async def test_one_at_a_time_and_few_waiting(builder):
    """Builds of one kind take turns; one that would wait behind too many is refused; another kind is not affected."""
    builder.held = asyncio.Event()
    tasks = [asyncio.create_task(builder.ask(number)) for number in range(KIND.most)]
    await until(lambda: builder.begun)
    with pytest.raises(RefusedError, match="too many documents") as refused:
        await builder.ask("one more")
    assert refused.value.status == 503
    joined = asyncio.create_task(builder.ask(0))  # an equal request is no further build
    other = asyncio.create_task(builder.ask("x", kind=BuildKind("others", rest=0.0, most=1, seconds=1.0)))
    await until(lambda: builder.running == 2)
    builder.held.set()
    await asyncio.gather(*tasks, joined, other)
    assert builder.begun == KIND.most + 1
    assert (await builder.ask("one more")).plain


async def test_a_rest_after_each(monkeypatch, builder):
    """A build that took a second is followed by two seconds without one, also if its client has left."""
    rests: list[float] = []
    sleep = asyncio.sleep

    async def rest(seconds):
        rests.append(round(seconds, 3))
        await sleep(0)

    monkeypatch.setattr(shared_builds.asyncio, "sleep", rest)

    builder.seconds = 1.0
    await builder.ask("a")
    builder.clock.move(0.5)
    await builder.ask("b")
    builder.clock.move(2.0)
    await builder.ask("c")
    assert rests == [1.5]


async def test_the_first_that_asked_leaves(builder):
    """The others get the answer, which is built once."""
    builder.held, client = asyncio.Event(), Client()
    gone = asyncio.create_task(builder.ask(request=client.request))
    stays = [asyncio.create_task(builder.ask(request=Client().request)) for _ in range(3)]
    await until(lambda: builder.begun)
    client.leaves.set()
    with pytest.raises(ClientDisconnect):
        await gone
    builder.held.set()
    assert {answer.plain for answer in await asyncio.gather(*stays)} == {b"1"}
    assert builder.cancelled == 0


async def test_all_leave(builder):
    """A build that nobody waits for is cancelled, in the queue or running, and makes room."""
    builder.held = asyncio.Event()
    clients = [Client() for _ in range(KIND.most)]
    tasks = [asyncio.create_task(builder.ask(number, client.request)) for number, client in enumerate(clients)]
    await until(lambda: builder.begun)
    for client in clients:
        client.leaves.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, ClientDisconnect) for result in results)
    await until(lambda: not builder.running)
    assert (builder.begun, builder.cancelled) == (1, 1)
    builder.held = None
    assert (await builder.ask(0)).plain == b"2"


async def test_a_request_right_after_all_have_left(builder):
    """It begins a build of its own, rather than share one that is being cancelled."""
    builder.held = asyncio.Event()
    first = asyncio.create_task(builder.ask())
    await until(lambda: builder.begun)
    first.cancel()
    await asyncio.sleep(0)  # the request is cancelled, and the build is about to be
    second = asyncio.create_task(builder.ask())
    builder.held.set()
    assert (await second).plain == b"2"


async def test_a_request_that_is_cancelled_anywhere(builder):
    async def check():
        builder.state = object()
        assert (await builder.ask()).plain
        assert not builder.builds._newest
        assert not any(lane.builds for lane in builder.builds._lanes.values())

    async def ask():
        builder.state = object()
        await builder.ask(request=Client().request)

    assert await cancelled_everywhere(ask, check) >= 1
    assert builder.running == 0


async def test_a_build_that_fails_or_refuses(caplog, builder):
    """A fault is logged once, all who wait get status 500, and the next request builds again."""
    builder.error = ZeroDivisionError("broken")
    results = await asyncio.gather(*(builder.ask() for _ in range(20)), return_exceptions=True)
    assert {(type(result), getattr(result, "status", 0)) for result in results} == {(RefusedError, 500)}
    builder.error = None
    assert (await builder.ask()).plain == b"2"
    assert [record.getMessage() for record in caplog.records] == ["internal error"]
    builder.state, builder.error = 2, RefusedError(503, "the file is damaged")
    results = await asyncio.gather(*(builder.ask() for _ in range(3)), return_exceptions=True)
    assert {str(result) for result in results} == {"the file is damaged"}
    assert len(set(map(id, results))) == 3


async def test_a_build_that_fails_while_nobody_waits(caplog, builder):
    """An error in the cleanup of a build that was given up is logged, and hurts no later request."""
    begun = asyncio.Event()

    async def fails_when_cancelled():
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            raise ZeroDivisionError
        return b""

    task = asyncio.create_task(builder.builds.get(KIND, "key", lambda: 1, fails_when_cancelled))
    await begun.wait()
    task.cancel()
    await asyncio.wait({task})
    assert (await builder.ask()).plain == b"1"
    assert [record.getMessage() for record in caplog.records] == ["internal error"]


async def test_a_shutdown(builder):
    """Each request that waits, for a running build or in the queue, is refused with 503 at once; so are later ones."""
    builder.held = asyncio.Event()
    tasks = [asyncio.create_task(builder.ask(number)) for number in range(3)]
    await until(lambda: builder.begun)
    builder.builds.close()
    results = await asyncio.gather(*tasks, builder.ask("later"), return_exceptions=True)
    assert {getattr(result, "status", 0) for result in results} == {503}
    assert (builder.running, builder.builds.size) == (0, 0)


async def test_few_answers_are_kept(monkeypatch, builder):
    """Requests for more and more answers do not fill the memory; the latest one is kept, however large."""
    monkeypatch.setattr(bounds, "MOST_ANSWERS", 5)
    monkeypatch.setattr(bounds, "ANSWERS_BYTES", 10_000)

    for number in range(50):
        await builder.ask(number)
    assert len(builder.builds._kept) == 5
    builder.size = 4_000
    for number in range(50, 60):
        await builder.ask(number)
        assert builder.builds.size <= 10_000
    builder.size = 100_000
    await builder.ask("large")
    begun = builder.begun
    await builder.ask("large")
    assert (builder.begun, len(builder.builds._kept)) == (begun, 1)
