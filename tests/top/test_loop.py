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
from rich.cells import cell_len
from rich.text import Text

from tests.support.cancellation import cancelled_everywhere
from tests.support.driven_top import LEFT
from tests.top.test_poll import FakeFeed
from uwsgi_headroom.top import loop
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
