"""The options of `tune`."""

from __future__ import annotations

from uwsgi_headroom.arguments.parser import Parser, expecting, number_between, seconds_between, whole_between
from uwsgi_headroom.numbers import parse_duration
from uwsgi_headroom.tune.request import (
    CLIENTS_RANGE,
    DEFAULT_MOST_RUNS,
    DEFAULT_SECONDS,
    LEAST_CLIENTS,
    RATE_RANGE,
    RUNS_RANGE,
    SECONDS_RANGE,
    parse_methods,
    parse_size,
)

DESCRIPTION = (
    "Find the best processes and threads for an application by experiment. tune starts the application under a uWSGI "
    "of its own on loopback, applies a load to a few settings in turn, and recommends the smallest setting that is not "
    "worse than the best. It sends requests only to the uWSGI that it started, and changes none of your files. The "
    "application connects to its databases and other backends as always: give it test ones."
)


def add_tune_flags(parser: Parser) -> None:
    """Add the options of `tune`."""
    _add_application(parser)
    _add_load(parser)
    _add_limits(parser)
    parser.add_argument(
        "--output",
        metavar="DIRECTORY",
        help="where the recommended ini file and the evidence go (default: a new directory tune-DATE-TIME). If you "
        "give the directory of an interrupted tune, its runs are not repeated",
    )
    parser.add_argument("--yes", action="store_true", help="start without asking")


def _add_application(parser: Parser) -> None:
    parser.add_argument(
        "--ini",
        metavar="FILE",
        help="the ini file of your server. tune leaves out its crons, daemons, mules, spoolers, log files and sockets, "
        "and prints what it leaves out",
    )
    parser.add_argument("--app", metavar="MODULE:CALLABLE", help="an application without an ini file")
    parser.add_argument("--chdir", metavar="DIRECTORY", help="where to start uWSGI (default: the working directory)")
    parser.add_argument(
        "--pythonpath", metavar="DIRECTORY", action="append", default=[], help="for --app: where its modules are"
    )
    parser.add_argument("--virtualenv", metavar="DIRECTORY", help="for --app: its virtual environment")
    parser.add_argument(
        "--uwsgi",
        metavar="FILE",
        help="the uWSGI to run (default: that of the virtual environment, else the one on PATH)",
    )


def _add_load(parser: Parser) -> None:
    parser.add_argument(
        "--url",
        metavar="PATH",
        action="append",
        default=[],
        help="a path to request, such as '/items?page=2' (default /). If you give several, they are requested in turn",
    )
    parser.add_argument(
        "--access-log",
        metavar="FILE",
        help="request the paths of this log instead: common or combined log format, GET only",
    )
    parser.add_argument(
        "--allow-methods",
        metavar="METHODS",
        type=expecting("methods, such as GET,HEAD", parse_methods),
        default=("GET",),
        help="take the requests of the log that have these methods, and send each as GET (default GET)",
    )
    parser.add_argument(
        "--clients",
        metavar="NUMBER",
        type=whole_between(*CLIENTS_RANGE),
        help="clients that each wait for an answer, then ask again at once (default: the threads of the present "
        f"setting, at least {LEAST_CLIENTS})",
    )
    parser.add_argument(
        "--rate",
        metavar="REQUESTS",
        type=number_between(*RATE_RANGE),
        help="requests per second, which do not wait for earlier answers, instead of --clients",
    )
    parser.add_argument(
        "--seconds",
        metavar="SECONDS",
        type=seconds_between(*SECONDS_RANGE),
        default=DEFAULT_SECONDS,
        help=f"how many seconds each run is measured (default {DEFAULT_SECONDS:g})",
    )
    parser.add_argument(
        "--most-runs",
        metavar="NUMBER",
        type=whole_between(*RUNS_RANGE),
        default=DEFAULT_MOST_RUNS,
        help=f"the most runs, {RUNS_RANGE[0]} to {RUNS_RANGE[1]} (default {DEFAULT_MOST_RUNS})",
    )


def _add_limits(parser: Parser) -> None:
    parser.add_argument(
        "--max-memory",
        metavar="SIZE",
        type=expecting("a size, such as 800M or 1.5G", parse_size),
        help="recommend only settings whose processes together take at most this much memory, such as 800M (default: "
        "what is available)",
    )
    parser.add_argument(
        "--max-p99",
        metavar="TIME",
        type=expecting("a time, such as 250ms or 2s", _parse_limit),
        help="recommend only settings with a 99th percentile of response times, as the clients see it, of at most "
        "this, such as 250ms",
    )


def _parse_limit(text: str) -> float:
    """Parse `250ms`, `2s` or `0.5` to seconds. Raises ValueError, also for 0."""
    seconds = parse_duration(text)
    if not seconds:
        raise ValueError(text)
    return seconds
