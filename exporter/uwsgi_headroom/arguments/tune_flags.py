"""The options of `tune`."""

from __future__ import annotations

from uwsgi_headroom.arguments.parser import Flag, expecting, seconds_between, whole_between
from uwsgi_headroom.tune.request import DEFAULT_SECONDS, LEAST_CLIENTS, parse_size

DESCRIPTION = (
    "Find out by experiment how many processes and threads are best for an application. tune starts the application in "
    "a separate uWSGI on loopback, measures at most five other settings against the present one, and recommends the "
    "smallest that is as good as the best. tune sends requests only to the uWSGI that it started, and changes none of "
    "your files. The application connects to its databases and other backends as usual, so let it use test databases."
)

FLAGS = (
    Flag(
        "--ini FILE",
        "the ini file of your server, perhaps with a section (shop.ini:staging)",
        extra={"required": True},
    ),
    Flag("--uwsgi FILE", "the uWSGI program (default: the one in the virtual environment, else the one on PATH)"),
    Flag(
        "--url PATH",
        "a path to request, such as '/items?page=2' (default /); repeat it for several paths, which take turns",
        is_repeatable=True,
    ),
    Flag(
        "--access-log FILE",
        "instead of --url: an access log in the common or combined format, whose GET requests tune repeats",
    ),
    Flag(
        "--clients NUMBER",
        f"clients that ask without a pause (default: as many as the present threads, but at least {LEAST_CLIENTS})",
        parse=whole_between(1, 2000),
    ),
    Flag(
        "--seconds SECONDS",
        f"how many seconds to measure in each run (default {DEFAULT_SECONDS:g})",
        parse=seconds_between(1.0, 600.0),
        default=DEFAULT_SECONDS,
    ),
    Flag(
        "--max-memory SIZE",
        "recommend nothing that takes more memory in all, such as 800M (default: the memory that is available)",
        parse=expecting("a size, such as 800M or 1.5G", parse_size),
    ),
    Flag(
        "--output FILE",
        "the file for the diff of the ini file (default: its name with .diff, in the working directory)",
    ),
    Flag("--yes", "start without asking"),
)
