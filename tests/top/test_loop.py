"""The terminal of `top`: what is sent to it, its keys, and how it is restored."""

import asyncio
import contextlib
import os
import pty
import re
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text

from tests.support.cancellation import cancelled_everywhere
from tests.support.driven_top import LEFT
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH
from tests.support.top_screen import TREND, hot, lines
from tests.support.web_server import serving
from uwsgi_headroom.config.servers import parse_server_argument
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.history import HistoryDocument
from uwsgi_headroom.documents.schema import ServerDocument, Servers
from uwsgi_headroom.source import parse_address
from uwsgi_headroom.source.address import Http
from uwsgi_headroom.top import loop
from uwsgi_headroom.top.feeds import Feed, FeedError, LocalFeed, RemoteFeed
from uwsgi_headroom.top.loop import Poller
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.terminal import Capabilities, Painter, Terminal, split_keys


@contextlib.contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, bytearray]]:
    """Make a terminal standard input and output until the block ends; yields a descriptor to type keys into, and the
    output so far. Keys are not echoed, so the output is only what was written.

    A thread reads the terminal: the loop under test writes its last output while nothing else runs, and a terminal that
    nobody reads is full after a few screens.
    """
    keyboard, screen = pty.openpty()
    modes = termios.tcgetattr(screen)
    modes[tty.LFLAG] &= ~termios.ECHO
    termios.tcsetattr(screen, termios.TCSANOW, modes)
    written = bytearray()
    ended = threading.Event()

    def receive() -> None:
        while not ended.is_set():
            if select.select([keyboard], [], [], 0.05)[0]:
                written.extend(os.read(keyboard, 65536))

    reader = threading.Thread(target=receive)
    with (
        open(screen, "rb", buffering=0) as source,
        os.fdopen(os.dup(screen), "w", encoding="utf-8") as target,
        monkeypatch.context() as patched,
    ):
        patched.setattr(sys, "stdin", source)
        patched.setattr(sys, "stdout", target)
        reader.start()
        try:
            yield keyboard, written
        finally:
            ended.set()
            reader.join()
    os.close(keyboard)


def test_cancelled_anywhere_the_terminal_is_as_it_was(monkeypatch):
    """Modes and screen are restored, whichever await is cancelled; the last run ends by the key q."""
    runs = 0
    with terminal(monkeypatch) as (keyboard, written):
        modes = termios.tcgetattr(keyboard)

        def run():
            os.write(keyboard, b"q")
            return loop.run([FakeFeed("shop")], Navigation(), Capabilities(addressable=True, colour=True))

        async def check():
            nonlocal runs
            runs += 1
            assert termios.tcgetattr(keyboard) == modes
            if runs > 1:  # the first run was cancelled before its first step
                await asyncio.wait_for(_until(lambda: written.endswith(LEFT)), 60)
                assert b"\x1b[?1049h" in written
            written.clear()
            termios.tcflush(keyboard, termios.TCOFLUSH)  # the key, if nobody has read it
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), 60)

        places = asyncio.run(cancelled_everywhere(run, check))
    assert runs == places + 2


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the kernel hands over what was written when it has time
        await asyncio.sleep(0.001)


def test_after_it_left_nothing_is_drawn_and_no_key_is_taken(monkeypatch):
    """After `leave`, neither a pending redraw nor a key has an effect; after `enter`, keys work again."""
    pressed: list[str] = []

    async def leave_and_come_back(keyboard, written):
        there = Terminal(sys.stdin.fileno(), sys.stdout.fileno(), pressed.append, lambda: None)
        there.enter()
        there.leave()
        there.show(["too late"])
        there.clear()
        os.write(keyboard, b"x\n")
        await asyncio.wait_for(_until(lambda: written.endswith(LEFT)), 60)
        assert b"too late" not in written
        assert pressed == []
        there.enter()
        await asyncio.wait_for(_until(lambda: "x" in pressed), 60)
        there.leave()

    with terminal(monkeypatch) as (keyboard, written):
        asyncio.run(leave_and_come_back(keyboard, written))


OURS = re.compile(r"\x1b\[[0-9;]*m")


def painter(unicode: bool = True, colour: bool = True) -> Painter:
    return Painter(colour=colour, styles=True, unicode=unicode)


@given(st.text(st.characters(exclude_categories=[]), max_size=60), st.integers(1, 40))
def test_text_of_others_is_harmless(text, width):
    """For any name, only the control characters of styles are sent, and no more than fits."""
    for unicode in (True, False):
        sent = painter(unicode).paint(Text(f"ab{text}", "bold red"), width)
        bare = OURS.sub("", sent)
        assert bare.isprintable()
        assert cell_len(bare) <= width
        sent.encode("utf-8" if unicode else "ascii")


def test_styles_and_escapes():
    """An escape sequence sets no title and moves no style."""
    assert painter().paint(Text("shop\x1b]0;x\x07 \u202egnp"), 80) == "shop\\x1b]0;x \\u202egnp"
    line = Text("\x1b\x1bshop ", end="").append("down", "bold").append(" since")
    assert painter().paint(line, 80) == "\\x1b\\x1bshop \x1b[1mdown\x1b[0m since"
    line = Text("hot", "bold red")
    assert painter(colour=False).paint(line, 9) == "\x1b[1mhot\x1b[0m"
    assert painter().paint(line, 9) == "\x1b[1;31mhot\x1b[0m"
    assert Painter(colour=False, styles=False, unicode=True).paint(line, 9) == "hot"
    assert painter(unicode=False).paint(Text("██▎ ▁▄▇é…↓├└│─"), 20) == "##  _.=?~v|`|-"


@pytest.mark.parametrize(
    ("sent", "keys", "rest"),
    [
        ("q", ["q"], ""),
        ("\x1b[A\x1bOB", ["up", "down"], ""),
        ("\x1b[5~\x1b[6~\x1b[1~\x1b[F", ["pageup", "pagedown", "home", "end"], ""),
        ("\x1b", [], "\x1b"),
        ("j\x1b[", ["j"], "\x1b["),
        ("\x1b[1;5", [], "\x1b[1;5"),
        ("\x1bj", ["escape", "j"], ""),
        ("\x1b[1;5C", ["right"], ""),
        ("\x1b[17~x", ["x"], ""),
        ("\x1bOP\x1bOS\x1b[15~\x1b[21~", [], ""),
        ("\x1b[[A\x1b[[D\x1b[[E", [], ""),
        ("\x1b[[", [], "\x1b[["),
        ("\x1b[Z", ["backtab"], ""),
        ("\r\t\x7f", ["enter", "tab", "backspace"], ""),
        ("ä", ["ä"], ""),
    ],
)
def test_keys(sent, keys, rest):
    """A sequence is one key, even in two halves; unknown sequences are no key; a lone ESC waits for the rest."""
    assert split_keys(sent) == (keys, rest)


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
            raise FeedError(f"{self.where}: {self.problem}")


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
    """Its servers stay listed with their age; its trouble is not shown on another feed's page."""

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
    """A key that selects another server cancels the request for the page that does not arrive."""

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
    """Errors other than FeedError are bugs of top, and are not hidden."""

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
