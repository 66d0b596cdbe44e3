"""Cuts blocks of a log into lines and finds the known messages in them; takes nothing out of a line but `Found`.

Most lines of a log are those of requests. They are recognized by their first bytes alone, which takes 0.1 us each,
and those of redirects and errors by their end, which nothing of a request can be. A line may begin with a date:
uWSGI writes one with `log-date`, and always before the messages of its master. Dates of an own format are recognized by
their time of day: the name of a user, in an access log of the same file, could otherwise begin a message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from errno import errorcode
from typing import NamedTuple

from uwsgi_headroom.config.defaults import LIBRARY_FILES
from uwsgi_headroom.uwsgi_log.messages import HEAD, index

LONGEST_LINE = 4096
"""Bytes of a line that are looked at. uWSGI cuts its own messages at this length, and none that is known is longer."""

MOST_KINDS = 200
"""The most different messages of one block that are distinguished; any others count by their code alone."""

_DATE = re.compile(rb"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4} - ")
_DATE_BYTES = len(b"Wed Nov 25 18:54:16 2026 - ")
_OWN_DATE = re.compile(rb"(?=[^\n]{0,64}(?:(?<![\w:])|/\d{4}:)\d\d:\d\d(?::\d\d)?(?![\w:]))[\w :./,+\[\]-]{5,64}? - ")

_DAYS = (b"Mon ", b"Tue ", b"Wed ", b"Thu ", b"Fri ", b"Sat ", b"Sun ")
_DATED_LINES = 20
"""Lines of a block in which a date of an own format is looked for: before all of uWSGI's lines, or none."""

_REQUEST = b"[pid: "
_NUMBERS = re.compile(rb"\[pid: (\d{1,10})\|app: (-?\d{1,6})\|req: (-?\d{1,20})/(\d{1,20})\] ")
_SIZE = re.compile(rb"=> generated (\d{1,20}) bytes in ")
_STATUS = re.compile(
    rb"\(HTTP/\d(?:\.\d)? (5\d\d|40[01345]|429|30[12378])\) \d{1,10} headers in (\d{1,20}) bytes "
    rb"\(\d{1,20} switches on core \d{1,10}\)$",
    re.MULTILINE,
)
"""How a line of a request begins, and ends if its status is one that a mistake in the set-up gives all, in
uWSGI's own format. The application is -1 if uWSGI called none that its stats have: it refused the request, a rule of
routing ended it, or PHP served it."""

_FRAME = re.compile(rb'  File "([^"\n]{1,400}\.py)", line (\d{1,7})')
_LIBRARY = re.compile(LIBRARY_FILES.encode())
_PLAIN_NAME = re.compile(r"[\w.-]{1,60}", re.ASCII)
_EXCEPTION = re.compile(rb"([A-Za-z_][\w.]{0,100})(?:$|:(?: \[Errno (\d{1,3})\] )?)", re.ASCII)
_FRAME_LINES = 400
"""The most lines of one traceback that are looked at."""


class Found(NamedTuple):
    """One message as it was seen; each number is None if the message has none. place: the name of a vassal, or
    of an exception its type, the name of its error number, and the last file and line of the application, else of a
    library, such as `OSError ENOSPC at shop/views.py:12`; else empty. request: of the line of a request, the number of
    its application, the application's calls and all requests by then, and the bytes of the response."""

    code: str
    worker: int | None = None
    pid: int | None = None
    signal: int | None = None
    limit: int | None = None
    place: str = ""
    request: tuple[int, int, int, int] | None = None


class Scanner:
    """Scans the log of one server, block after block. A traceback may go on in the next block."""

    def __init__(self) -> None:
        self.forget()
        self._known = index()
        self._heads = frozenset((*self._known, *_DAYS))
        self._own_date = 0  # the length of a date of an own format, 0 for none

    def forget(self) -> None:
        """Begin anew, since lines were left out."""
        self._frames: dict[bool, str] = {}  # the last ones of a traceback: of the application, and True: of a library
        self._left = 0  # the lines that may still belong to it
        self._place = ""  # of the last traceback that ended, for the message of a failed start that follows it

    def scan(self, block: bytes) -> Counter[Found]:
        """Count the known messages in a block of whole lines."""
        lines = block.split(b"\n")[:-1]
        seen: Counter[Found] = Counter()
        if self._left:
            self._follow(lines, 0, seen)
        matched: dict[bytes, Found | None] = {}  # a block may have the same line many times
        for place in self._find_places(lines):
            self._take(lines, place, matched, seen)
        seen.update(_find_errors(block))
        return seen

    def _find_places(self, lines: list[bytes]) -> list[int]:
        """The places of the lines that may be messages, by four bytes at their beginning and behind their date."""
        known, heads, end = self._known, self._heads, _DATE_BYTES + HEAD
        places = [place for place, line in enumerate(lines) if line[:HEAD] in heads]
        places = [place for place in places if lines[place][:HEAD] in known or lines[place][_DATE_BYTES:end] in known]
        dates = (_OWN_DATE.match(line) for line in lines[:_DATED_LINES] if not _DATE.match(line))
        self._own_date = next((date.end() for date in dates if date), self._own_date)
        if begin := self._own_date:
            end = begin + HEAD
            places += [place for place, line in enumerate(lines) if line[begin:end] in known]
        return sorted({*places})

    def _take(self, lines: list[bytes], place: int, matched: dict[bytes, Found | None], seen: Counter[Found]) -> None:
        line = lines[place][:LONGEST_LINE]
        if line not in matched:
            date = _DATE.match(line) or _OWN_DATE.match(line)
            matched[line] = _match(line) or (_match(line[date.end() :]) if date else None)
        if not (found := matched[line]):
            return
        if found.code == "traceback":
            self._frames, self._left = {}, _FRAME_LINES
            self._follow(lines, place + 1, seen)
            return
        if found.code in ("application_not_loaded", "failed_in_worker", "no_callable"):
            found, self._place = found._replace(place=self._place), ""
        count_found(seen, found, MOST_KINDS)

    def _follow(self, lines: list[bytes], place: int, seen: Counter[Found]) -> None:
        """Follow a traceback from this line on, to the line with its exception."""
        for line in lines[place : place + self._left]:
            self._left -= 1
            if not line.startswith(b" "):
                self._place, self._left = _name_exception(line, self._frames), 0
                count_found(seen, Found("traceback", place=self._place), MOST_KINDS)
                return
            if (frame := _FRAME.match(line)) and (name := _name_place(*frame.groups())):
                self._frames[bool(_LIBRARY.match(frame[1]))] = name


def _name_exception(line: bytes, frames: Mapping[bool, str]) -> str:
    """The exception at the end of a traceback, as in `Found.place`; empty if there is none."""
    if not (exception := _EXCEPTION.match(line)):
        return ""
    name = f"{exception[1].decode()} {errorcode.get(int(exception[2] or 0), '')}".rstrip()
    frame = frames.get(False) or frames.get(True)
    return f"{name} at {frame}" if frame else name


def _name_place(path: bytes, line: bytes) -> str:
    """The last two parts of a path, if they are plain, and the number of a line: `shop/views.py:12`."""
    parts = path.decode("ascii", "replace").split("/")[-2:]
    names = [part for part in parts if part]
    return f"{'/'.join(names)}:{int(line)}" if all(map(_PLAIN_NAME.fullmatch, names)) else ""


def count_requests(block: bytes) -> int:
    """How many lines of requests a block of whole lines has."""
    return block.startswith(_REQUEST) + block.count(b"\n" + _REQUEST)


def _find_errors(block: bytes) -> Iterator[Found]:
    """The lines of requests in a block with a status that redirects or is an error."""
    for end in _STATUS.finditer(block):
        place = block.rfind(b"\n", 0, end.start()) + 1
        begin, size = _NUMBERS.match(block, place), _SIZE.match(block, block.rfind(b"=> ", place, end.start()))
        if begin and size:
            pid, application, calls, requests = map(int, begin.groups())
            if end[1] < b"500":  # clients can make any number: they are only counted
                yield Found(f"status_{end[1].decode()[0]}xx", limit=int(end[1]))
            else:
                yield Found("status_5xx", pid=pid, request=(application, calls, requests, int(size[1]) + int(end[2])))


def _match(line: bytes) -> Found | None:
    """The known message that a line without its date is."""
    for message, pattern in index().get(line[:HEAD], ()):
        if found := pattern.match(line):
            texts = {name: text.decode("ascii") for name, text in found.groupdict().items() if text is not None}
            place, numbers = texts.pop("place", ""), {name: int(text) for name, text in texts.items()}
            return Found(message.code, place=place, **numbers)  # type: ignore[arg-type]  # each is a field's number
    return None


def count_found(seen: Counter[Found], message: Found, most: int, number: int = 1) -> None:
    """Count a message; by its code alone if that many different ones were seen before."""
    seen[message if message in seen or len(seen) < most else Found(message.code)] += number


BLOCK_BYTES = 128 * 1024
"""Read at once: less than a millisecond of work, during which the exporter's other threads wait for Python's lock."""

LONGEST_UNENDED = 64 * 1024
"""Bytes of a line that has no end yet; of a longer one, nothing is looked at."""


class LineCutter:
    """Cuts consecutive blocks into whole lines. within_line: whether the first block begins in a line, which is left
    out then."""

    def __init__(self, *, within_line: bool = False) -> None:
        self._carry = b""  # the beginning of a line without an end
        self._within_line = within_line

    def cut(self, block: bytes) -> bytes:
        """The whole lines that this block ends."""
        text = self._carry + block.replace(b"\0", b"")  # the hole after a truncation, or no text
        end = text.rfind(b"\n") + 1
        lines, self._carry = text[:end], text[end:]
        if self._within_line and end:
            lines, self._within_line = lines.partition(b"\n")[2], False
        if len(self._carry) > LONGEST_UNENDED:
            self._carry, self._within_line = b"", True
        return lines
