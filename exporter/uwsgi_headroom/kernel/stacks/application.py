"""Chooses the frame of a stack that is the application's own: the line that its developers can change.

The rule: the first frame from the top, which is the function called last, that is of no library. A library's file is in
`site-packages` or `dist-packages`, or in CPython's own folder (`lib/python3.11`), or no file at all (`<frozen ...>`,
`<string>`). With a list of prefixes, the application's frames are those whose file begins with one of them, and no
others: for an application that is installed like a library. In a stack without a frame of the application's, the frame
at the top is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from uwsgi_headroom.kernel.stacks.reader import Frame

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/([^/]+?)(?:\.py)?(?:/|$)")
_LIBRARY = re.compile(r"<|(?:.*/)?(?:(?:site|dist)-packages|lib(?:64)?/python\d(?:\.\d+)?)/")


class Choice(NamedTuple):
    """The chosen frame, and the library's function that it has called, such as `psycopg2 execute`; empty if it has
    called none, or one in C."""

    frame: Frame
    callee: str


def choose_frame(frames: Iterable[Frame], prefixes: Sequence[str] = ()) -> Choice | None:
    """The application's frame of a stack, whose frames are given from the top; None for an empty stack. No more frames
    are asked for than it takes."""
    top: Frame | None = None
    above: Frame | None = None
    for frame in frames:
        if is_application(frame.code.file, prefixes):
            return Choice(frame, _describe(above) if above else "")
        top, above = top or frame, frame
    return Choice(top, "") if top else None


def is_application(file: str, prefixes: Sequence[str] = ()) -> bool:
    """Whether a file is the application's own."""
    return file.startswith(tuple(prefixes)) if prefixes else not _LIBRARY.match(file)


def _describe(frame: Frame) -> str:
    package = _PACKAGES.match(frame.code.file)
    path = frame.code.file.removesuffix(".py").removesuffix("/__init__")
    return f"{package[1] if package else path.rpartition('/')[2]} {frame.code.function}"
