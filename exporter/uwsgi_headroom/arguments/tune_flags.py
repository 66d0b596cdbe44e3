"""The options of `tune`."""

from __future__ import annotations

from typing import Any

from uwsgi_headroom.arguments.parser import Parser, expecting, seconds_between, whole_between
from uwsgi_headroom.tune.request import DEFAULT_SECONDS, LEAST_CLIENTS, parse_size

DESCRIPTION = (
    "Find out by experiment how many processes and threads are best for an application. tune starts the application in "
    "a separate uWSGI on loopback, measures at most five other settings against the present one, and recommends the "
    "smallest that is as good as the best. tune sends requests only to the uWSGI that it started, and changes none of "
    "your files. The application connects to its databases and other backends as usual, so let it use test databases."
)

_SIZE = expecting("a size, such as 800M or 1.5G", parse_size)

_FLAGS: dict[str, tuple[str, dict[str, Any], str]] = {
    "--ini": (
        "FILE",
        {"required": True},
        "the ini file of your server, perhaps with a section (shop.ini:staging). tune keeps what loads the application "
        "and decides how fast it is, and prints what it leaves out",
    ),
    "--uwsgi": ("FILE", {}, "the uWSGI program (default: that of the virtual environment, else the one on PATH)"),
    "--url": (
        "PATH",
        {"action": "append", "default": []},
        "a path to request, such as '/items?page=2' (default /); tune requests several paths in turn",
    ),
    "--access-log": (
        "FILE",
        {},
        "instead of --url: an access log in the common or combined log format, whose GET requests tune repeats",
    ),
    "--clients": (
        "NUMBER",
        {"type": whole_between(1, 2000)},
        "the number of simulated clients; each sends its next request as soon as it has a response (default: the total "
        f"number of threads in the present setting, but at least {LEAST_CLIENTS})",
    ),
    "--seconds": (
        "SECONDS",
        {"type": seconds_between(1.0, 600.0), "default": DEFAULT_SECONDS},
        f"how many seconds to measure in each run (default {DEFAULT_SECONDS:g})",
    ),
    "--max-memory": (
        "SIZE",
        {"type": _SIZE},
        "recommend only settings whose processes together take at most this much memory, such as 800M (default: the "
        "memory that is available)",
    ),
    "--output": ("FILE", {}, "the file for the diff (default: the ini file's name with .diff, in this directory)"),
}


def add_tune_flags(parser: Parser) -> None:
    """Add the options of `tune`."""
    for flag, (metavar, more, text) in _FLAGS.items():
        parser.add_argument(flag, metavar=metavar, help=text, **more)
    parser.add_argument("--yes", action="store_true", help="start without asking")
