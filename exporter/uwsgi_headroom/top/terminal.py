"""Draws on the terminal, reads its keys, and restores its previous state.

A terminal may accept no output for minutes (a slow line, Ctrl-S), so a thread writes and drawing never waits: a new
screen is drawn only after the last one has been written. Only changed lines are written.

`Terminal` handles the screen, `split_keys` decodes what the keyboard sends, and `Painter` turns styled text into
characters.
"""

from __future__ import annotations

import asyncio
import contextlib
import curses
import io
import os
import re
import termios
import tty
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from msgspec import Struct
from rich.console import Console
from rich.text import Span, Text

from uwsgi_headroom.logs import BackgroundWriter
from uwsgi_headroom.terminal_text import escape_text

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"  # alternate screen (if there is one), no cursor, cleared
_LEAVE = "\x1b[0m\x1b[H\x1b[2J\x1b[?25h\x1b[?1049l"
_LAST_WORDS_SECONDS = 1.0
_REST_OF_A_KEY_SECONDS = 0.1


class Capabilities(Struct, frozen=True):
    """Features of a terminal."""

    addressable: bool
    """Whether the cursor can be moved: else there is no screen to draw on."""
    colour: bool


def detect_capabilities(environment: Mapping[str, str], descriptor: int) -> Capabilities:
    """Look up a terminal's capabilities in terminfo. A terminal that terminfo does not know (a newer one, over ssh)
    counts as fully capable."""
    kind = environment.get("TERM", "")
    colour_wanted = not environment.get("NO_COLOR")
    if kind in ("", "dumb", "unknown"):
        return Capabilities(addressable=False, colour=False)
    try:
        curses.setupterm(kind, descriptor)
    except curses.error:
        return Capabilities(addressable=True, colour=colour_wanted)
    return Capabilities(bool(curses.tigetstr("cup")), colour_wanted and curses.tigetnum("colors") >= 8)


def takes_unicode(encoding: str | None) -> bool:
    """Whether an encoding of standard output has every character."""
    return (encoding or "").lower().replace("-", "") == "utf8"


class Terminal:
    """Draws, and calls `on_key` with every key, only between `enter` and `leave`. Calls `on_hangup` when the terminal
    is gone."""

    def __init__(self, source: int, target: int, on_key: Callable[[str], None], on_hangup: Callable[[], None]) -> None:
        self._source, self._target = source, target
        self._on_key, self._on_hangup = on_key, on_hangup
        self._before: list[int | list[bytes | int]] | None = None
        self._shown: list[str] = []
        self._loop = asyncio.get_running_loop()
        self._writer = BackgroundWriter(target, "terminal", on_failure=self._hang_up)
        self._unfinished = ""
        self._entered = False

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines; 80 and 24 if the terminal does not report its size."""
        with contextlib.suppress(OSError):
            columns, lines = os.get_terminal_size(self._target)
            if columns > 0 and lines > 0:
                return columns, lines
        return 80, 24

    def enter(self) -> None:
        """Take over the terminal. Ctrl-C and Ctrl-Z remain signals; Ctrl-S becomes an ordinary key."""
        if os.isatty(self._source):
            self._before = termios.tcgetattr(self._source)
            tty.setcbreak(self._source, termios.TCSANOW)
            quiet = termios.tcgetattr(self._source)
            quiet[tty.IFLAG] &= ~termios.IXON
            termios.tcsetattr(self._source, termios.TCSANOW, quiet)
        self._shown = []
        self._entered = True
        self._write(_ENTER)
        if os.isatty(self._source):
            self._loop.add_reader(self._source, self._read)

    def leave(self) -> None:
        self._entered = False
        self._loop.remove_reader(self._source)
        self._write(_LEAVE)
        self._writer.finish(_LAST_WORDS_SECONDS)
        if self._before is not None:
            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._source, termios.TCSANOW, self._before)
            self._before = None

    def clear(self) -> None:
        """Clear the screen after a change of size, so that every line is drawn again."""
        if not self._entered:
            return
        self._shown = []
        self._write("\x1b[H\x1b[2J")

    @property
    def busy(self) -> bool:
        return self._writer.busy

    def show(self, lines: Sequence[str]) -> None:
        if not self._entered:
            return
        changed = [
            f"\x1b[{place};1H{line}\x1b[0m\x1b[K"
            for place, line in enumerate(lines, 1)
            if place > len(self._shown) or self._shown[place - 1] != line
        ]
        self._shown = list(lines)
        if changed:
            self._write("".join(changed))

    def _write(self, text: str) -> None:
        self._writer.put(text.encode("utf-8", "replace"))

    def _hang_up(self) -> None:
        """Report to the event loop that the terminal is gone. Called in the writer's thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._on_hangup)

    def _read(self) -> None:
        try:
            received = os.read(self._source, 1024)
        except OSError:
            received = b""
        if not received:
            self._loop.remove_reader(self._source)
            self._on_hangup()
            return
        pressed, self._unfinished = split_keys(self._unfinished + received.decode("utf-8", "replace"))
        for key in pressed:
            self._on_key(key)
        if self._unfinished:
            self._loop.call_later(_REST_OF_A_KEY_SECONDS, self._give_up, self._unfinished)

    def _give_up(self, waited_for: str) -> None:
        if self._unfinished == waited_for:
            self._unfinished = ""
            self._on_key("escape")


_SEQUENCES = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "1~": "home",
    "7~": "home",
    "4~": "end",
    "8~": "end",
    "5~": "pageup",
    "6~": "pagedown",
    "Z": "backtab",
}
"""Keys by the text after ESC [ or ESC O, of xterm, rxvt and the Linux console."""

_CONTROLS = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\b": "backspace"}
_PART = re.compile(r"\x1b[\[O]([0-9;]*)(\[?[A-Za-z~])|(\x1b(?:[\[O][0-9;]*\[?)?)$|(.)", re.DOTALL)


def split_keys(text: str) -> tuple[list[str], str]:
    """Split input into keys, and the beginning of a sequence whose end has not arrived, such as a lone ESC."""
    pressed: list[str] = []
    for numbers, letter, unfinished, character in _PART.findall(text):
        if unfinished:
            return pressed, unfinished
        if letter:
            known = _SEQUENCES.get(numbers + letter if letter == "~" else letter)
            pressed += [known] if known else []
        elif character == "\x1b":
            pressed.append("escape")
        else:
            pressed.append(_CONTROLS.get(character, character))
    return pressed, ""


_ASCII = str.maketrans("▏▎▍▌▋▊▉█▁▂▃▄▅▆▇…≤─│├└↑↓←→", "   #####__..--=~<-||`^v<>")
"""ASCII replacements, one for each character, for terminals without Unicode."""


class Painter:
    """Paints lines. colour: use colours; styles: use bold and reverse; unicode: the terminal takes UTF-8."""

    def __init__(self, *, colour: bool, styles: bool, unicode: bool) -> None:
        self._unicode = unicode
        self._console = Console(
            file=io.StringIO(),
            force_terminal=styles,
            color_system="standard" if styles else None,
            no_color=not colour,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            width=10_000,
        )

    def paint(self, line: Text, width: int) -> str:
        """Write a line, at most `width` columns, with no control characters except those of its styles."""
        harmless = _escape(line)
        harmless.truncate(width, overflow="ellipsis")
        if not self._unicode:
            plain = harmless.plain.translate(_ASCII).encode("ascii", "replace").decode("ascii")
            harmless = Text(plain, spans=harmless.spans, style=harmless.style, end="")
            harmless.truncate(width)  # what has no width may be a question mark now
        with self._console.capture() as captured:
            self._console.print(harmless, soft_wrap=True, end="")
        return captured.get()


def _escape(line: Text) -> Text:
    """Return a copy of a line with its text escaped and its styles on the same words."""
    if escape_text(line.plain) == line.plain:
        return line.copy()
    ends = [0, *accumulate(len(escape_text(character)) for character in line.plain)]
    spans = [Span(ends[span.start], ends[min(span.end, len(line.plain))], span.style) for span in line.spans]
    return Text(escape_text(line.plain), spans=spans, style=line.style, end="")
