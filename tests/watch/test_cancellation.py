"""After any cancellation at any await, the next read, scrape and close work; and the helper cancels everywhere."""

import asyncio
import contextlib

import pytest

from tests.support import bad_servers
from tests.support.cancellation import cancelled_everywhere, cancelling, everywhere
from tests.support.captured_documents import document
from tests.watch.sampling import sampling, until
from uwsgi_headroom.config.servers import make_server
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.reader import Reader
from uwsgi_headroom.watch.tasks import supervise

NAMES = ["shop", "api"]


@contextlib.contextmanager
def two_servers(kind):
    with (
        bad_servers.answers(kind, document("minified")) as first,
        bad_servers.answers(kind, document("threads_4x8_busy")) as second,
    ):
        yield [first, second]


@pytest.fixture(scope="module")
def addresses():
    with two_servers("unix") as both:
        yield both


@pytest.fixture(scope="module")
def over_tcp():
    """Servers that are read in tasks."""
    with two_servers("tcp") as both:
        yield both


def make_reader(address: str) -> Reader:
    server = make_server(address, name="shop")
    assert server.address
    return Reader("shop", server.address)


async def works(reader: Reader) -> None:
    assert isinstance(await reader.read(), Reading)
    await reader.pause()
    reader.resume()
    assert isinstance(await reader.read(), Reading)
    await reader.close()


def test_a_read_in_flight_that_is_cancelled_starts_again(over_tcp):
    async def scenario(place: int) -> bool:
        reader = make_reader(over_tcp[0])
        with cancelling(Reader._read, place) as cancellation:
            assert isinstance(await reader.read(), Reading)
        await works(reader)
        return cancellation.happened

    everywhere(scenario, least=1)


@pytest.mark.parametrize("servers", ["addresses", "over_tcp"])
@pytest.mark.parametrize("end", [Reader.pause, Reader.close])
def test_a_reader_works_again_after_a_pause_at_any_moment(request, servers, end):
    async def scenario(place: int) -> bool:
        reader = make_reader(request.getfixturevalue(servers)[0])
        reading = asyncio.create_task(reader.read())
        for _ in range(place):
            await asyncio.sleep(0)
        late = reading.done()
        await end(reader)
        reader.resume()
        await reading
        if end is Reader.pause:
            await works(reader)
        return not late and place < 200

    everywhere(scenario, least=2)


@pytest.mark.parametrize("function", [Reader.read, Reader.pause, Reader.close])
def test_callers_that_wait_for_a_reader_may_be_cancelled(addresses, function):
    async def scenario(place: int) -> bool:
        reader = make_reader(addresses[0])
        under_way = asyncio.create_task(reader.read())
        await asyncio.sleep(0)
        with cancelling(function, place) as cancellation, contextlib.suppress(asyncio.CancelledError):
            await asyncio.ensure_future(function(reader))
        if function is Reader.close:
            await reader.close()
            await under_way
            return cancellation.happened
        reader.resume()
        await under_way
        await works(reader)
        return cancellation.happened

    everywhere(scenario, least=1)


async def fleet_works(fleet: Fleet, names: list[str]) -> None:
    fleet.resume()
    before = {watch: watch.integrals.totals.samples for watch in fleet.watches()}
    async with sampling(fleet):
        await until(lambda: all(watch.integrals.totals.samples > samples for watch, samples in before.items()))
        observations = await fleet.observe()
        assert [observation.name for observation in observations if observation.reading] == names


def make_fleet(addresses: list[str]) -> Fleet:
    return Fleet([make_server(address, name=name) for address, name in zip(addresses, NAMES, strict=True)])


@pytest.mark.parametrize("function", [Fleet.run, supervise, Reader._read])
def test_a_fleet_still_samples_after_any_part_of_it_is_cancelled(over_tcp, function):
    async def scenario(place: int) -> bool:
        fleet = make_fleet(over_tcp)
        with cancelling(function, place) as cancellation:
            running = asyncio.create_task(fleet.run())
            for _ in range(100):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait({running})
        await fleet_works(fleet, NAMES)
        return cancellation.happened

    everywhere(scenario, least=1)


@pytest.mark.parametrize("function", [Fleet.observe, Fleet.pause])
def test_callers_that_wait_for_a_fleet_may_be_cancelled(addresses, function):
    async def scenario(place: int) -> bool:
        fleet = make_fleet(addresses)
        running = asyncio.create_task(fleet.run())
        with cancelling(function, place) as cancellation, contextlib.suppress(asyncio.CancelledError):
            await asyncio.ensure_future(function(fleet))
        running.cancel()
        await fleet_works(fleet, NAMES)
        return cancellation.happened

    everywhere(scenario, least=1)


def test_each_place_is_cancelled_once():
    """Before the first step, at each await, and then not at all; `check` comes after each."""
    ended: list[str] = []

    async def work() -> None:
        place = "begun"
        try:
            await asyncio.sleep(0)
            place = "slept"
            await asyncio.sleep(0.001)
            place = "done"
        finally:
            ended.append(place)

    async def check() -> None:
        ended.append("checked")

    assert asyncio.run(cancelled_everywhere(work, check)) == 2
    assert ended == ["checked", "begun", "checked", "slept", "checked", "done", "checked"]


def test_one_that_takes_no_notice_is_still_tried_everywhere():
    """A coroutine that continues after a cancellation is cancelled at its later places as well."""
    caught: list[int] = []

    async def work() -> None:
        for place in (1, 2):
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                caught.append(place)

    assert asyncio.run(cancelled_everywhere(work)) == 2
    assert caught == [1, 2]


def test_what_it_raises_is_raised():
    """An error of the coroutine is raised, not taken for its end."""

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            raise KeyError("x") from None

    with pytest.raises(KeyError):
        asyncio.run(cancelled_everywhere(work))
