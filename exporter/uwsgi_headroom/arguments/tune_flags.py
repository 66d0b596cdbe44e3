"""The options of `tune`."""

from __future__ import annotations

from functools import partial

from uwsgi_headroom.arguments.parser import Parser, expecting, seconds_between, whole_between
from uwsgi_headroom.tune.request import DEFAULT_SECONDS, LEAST_CLIENTS, parse_size

DESCRIPTION = (
    "Find out by experiment how many processes and threads are best for an application. tune starts the application in "
    "a separate uWSGI on loopback, measures at most five other settings against the present one, and recommends the "
    "smallest that is as good as the best. tune sends requests only to the uWSGI that it started, and changes none of "
    "your files. The application connects to its databases and other backends as usual, so let it use test databases."
)

INI = "the ini file of your server, perhaps with a section (shop.ini:staging)"
UWSGI = "the uWSGI program (default: the one in the virtual environment, else the one on PATH)"
URL = "a path to request, such as '/items?page=2' (default /); repeat it for several paths, which take turns"
LOG = "instead of --url: an access log in the common or combined format, whose GET requests tune repeats"
CLIENTS = f"clients that ask without a pause (default: as many as the present threads, but at least {LEAST_CLIENTS})"
SECONDS = f"how many seconds to measure in each run (default {DEFAULT_SECONDS:g})"
MEMORY = "recommend nothing that takes more memory in all, such as 800M (default: the memory that is available)"
OUTPUT = "the file for the diff of the ini file (default: its name with .diff, in the working directory)"


def add_tune_flags(parser: Parser) -> None:
    """Add the options of `tune`."""
    size = expecting("a size, such as 800M or 1.5G", parse_size)
    file = partial(parser.add_argument, metavar="FILE")
    file("--ini", required=True, help=INI)
    file("--uwsgi", help=UWSGI)
    parser.add_argument("--url", metavar="PATH", action="append", default=[], help=URL)
    file("--access-log", help=LOG)
    parser.add_argument("--clients", metavar="NUMBER", type=whole_between(1, 2000), help=CLIENTS)
    seconds = seconds_between(1.0, 600.0)
    parser.add_argument("--seconds", metavar="SECONDS", type=seconds, default=DEFAULT_SECONDS, help=SECONDS)
    parser.add_argument("--max-memory", metavar="SIZE", type=size, help=MEMORY)
    file("--output", help=OUTPUT)
    parser.add_argument("--yes", action="store_true", help="start without asking")
