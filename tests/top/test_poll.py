"""Feeds are polled independently: one that hangs delays no other, and its last answer stays."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.support.cancellation import cancelled_everywhere
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH
from tests.support.top_screen import TREND, hot, lines
from tests.support.web_server import serving
from uwsgi_headroom.check.exporter_client import ApiError
from uwsgi_headroom.config.servers import parse_server_argument
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.history import HistoryDocument
from uwsgi_headroom.documents.schema import ServerDocument, Servers
from uwsgi_headroom.source import parse_address
from uwsgi_headroom.source.address import Http
from uwsgi_headroom.top.feeds import Feed, LocalFeed, RemoteFeed
from uwsgi_headroom.top.loop import Poller
from uwsgi_headroom.top.navigation import Navigation


class FakeFeed:
    """A feed of one server. While `hangs`, it does not answer; with a `problem`, it fails. `asked` counts requests."""

    fleet = None

    def __init__(self, name: str, *, hangs: bool = False, problem: str = "") -> None:
        self.where = f"http://{name}:9238"
        self.document: ServerDocument = replace(hot(), name=name)
        self.problem = problem
        self.asked = 0
        self.answers = asyncio.Event()
        if not hangs:
            self.answers.set()

    async def servers(self, window: float | None) -> Servers:
        await self._answer()
        return build.build_server_list([self.document], ScriptedWatch().clock)

    async def server(self, name: str, window: float | None) -> ServerDocument:
        await self._answer()
        assert name == self.document.name
        return self.document

    async def trend(self, name: str, seconds: float, points: int) -> HistoryDocument:
        await self._answer()
        return TREND

    async def _answer(self) -> None:
        self.asked += 1
        await self.answers.wait()
        if self.problem:
            raise ApiError(f"{self.where}: {self.problem}", "http")


class _Clock:
    """A monotonic clock that is moved by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


async def _turns(poller: Poller) -> None:
    """Let every possible answer arrive, and take the answers."""
    for _ in range(10):
        await asyncio.sleep(0)
    poller.take_answers()


def names(poller: Poller) -> list[str]:
    return sorted(entry.summary.name for entry in poller.model.entries)


LIST = Navigation()


def test_a_feed_that_hangs_delays_no_other():
    """Other feeds are listed and polled again meanwhile, and the feed that hangs is asked only once."""

    async def look():
        clock, hanging = _Clock(), FakeFeed("hangs", hangs=True)
        well = [FakeFeed("a"), FakeFeed("b")]
        poller = Poller([hanging, *well], clock)
        for polls in (1, 2, 3):
            poller.ask(LIST)
            await _turns(poller)
            assert names(poller) == ["a", "b"]
            assert well[0].asked >= polls
            clock.now += 1.0
        assert hanging.asked == 1
        poller.ask(LIST)
        assert poller.model.troubles == {0: "http://hangs:9238: no answer for 3.0 s"}
        hanging.answers.set()
        await _turns(poller)
        assert names(poller) == ["a", "b", "hangs"]
        assert poller.model.troubles == {}
        poller.cancel()

    asyncio.run(look())


def test_servers_of_a_feed_that_hangs_stay_with_their_age():
    async def look():
        clock, feeds = _Clock(), [FakeFeed("hangs"), FakeFeed("well")]
        poller = Poller(feeds, clock)
        await poller.poll(LIST)
        feeds[0].answers.clear()
        poller.ask(LIST)
        await _turns(poller)
        clock.now += 4.0
        poller.ask(LIST)
        await _turns(poller)
        model = poller.model
        seen_at = next(entry.seen_at for entry in model.entries if entry.key == (0, "hangs"))
        assert seen_at > EPOCH
        from uwsgi_headroom.top.view.tables import server_table  # noqa: PLC0415

        rows = [line.plain for line in server_table(model, model.entries, (1, "well"), 200, seen_at + 12).rows]
        by_name = {row.split()[0].strip("> ") or row.split()[1]: row for row in rows}
        assert "12 s ago: " in by_name["hangs"]
        assert " ago: " not in by_name["well"]
        trouble = "STALE  http://hangs:9238: no answer for 4.0 s"
        assert trouble in lines(model, LIST, 120)
        assert trouble not in lines(model, Navigation(view="workers", server=(1, "well")), 120)
        poller.cancel()

    asyncio.run(look())


def test_every_feed_has_a_trouble_of_its_own():
    async def look():
        poller = Poller([FakeFeed("a", problem="refused"), FakeFeed("b"), FakeFeed("c", problem="timeout")])
        await poller.poll(LIST)
        assert poller.model.troubles == {0: "http://a:9238: refused", 2: "http://c:9238: timeout"}
        assert names(poller) == ["b"]
        shown = lines(poller.model, LIST, 120)
        assert shown[1:3] == ["STALE  http://a:9238: refused", "STALE  http://c:9238: timeout"]

    asyncio.run(look())


def test_another_page_does_not_wait_for_one_that_hangs():
    async def look():
        feeds = [FakeFeed("a"), FakeFeed("b")]
        poller = Poller(feeds)
        await poller.poll(LIST)
        feeds[0].answers.clear()
        poller.ask(Navigation(view="workers", server=(0, "a")))
        await _turns(poller)
        poller.ask(Navigation(view="workers", server=(1, "b")))
        await _turns(poller)
        assert poller.model.server is feeds[1].document
        poller.cancel()

    asyncio.run(look())


def test_a_fault_is_raised():
    """Errors other than ApiError are bugs of top, and are not hidden."""

    async def look():
        feed = FakeFeed("a")
        feed.document = None
        await Poller([feed]).poll(LIST)

    with pytest.raises(AttributeError):
        asyncio.run(look())


def test_cancelled_anywhere_the_next_poll_works():
    """With fakes, an exporter and local servers, no request stays behind, and the next poll is answered."""

    async def look(feeds, count):
        poller = Poller(feeds)

        async def check():
            assert poller.under_way == set()
            await poller.poll(LIST)
            assert len(poller.model.entries) == count
            assert poller.model.troubles == {}
            assert poller.model.server is not None

        return await cancelled_everywhere(lambda: poller.poll(LIST), check)

    async def look_at_fakes():
        return await look([FakeFeed("a"), FakeFeed("b")], 2)

    assert asyncio.run(look_at_fakes()) > 1
    with serving("shop=/nowhere/shop.stats") as port:
        exporter = parse_address(f"http://127.0.0.1:{port}")
        assert isinstance(exporter, Http)
        feeds: list[Feed] = [RemoteFeed(exporter), LocalFeed([parse_server_argument("api=/nowhere/stats", "test")])]
        assert asyncio.run(look(feeds, 2)) > 1
