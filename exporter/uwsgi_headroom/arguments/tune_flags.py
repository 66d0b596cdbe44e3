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
    "Find out by experiment how many processes and threads are best for an application. tune starts the application in "
    "a separate uWSGI on loopback, tries one setting after another under load, and recommends the smallest setting "
    "that performs as well as the best one. tune sends requests only to the uWSGI that it started, and changes none of "
    "your files. The application connects to its databases and other backends as usual, so let it use test databases."
)


def add_tune_flags(parser: Parser) -> None:
    """Add the options of `tune`."""
    _add_application(parser)
    _add_load(parser)
    _add_limits(parser)
    parser.add_argument(
        "--output",
        metavar="DIRECTORY",
        help="the directory for the recommended ini file and the evidence (default: a new directory named "
        "tune-DATE-TIME). If you give the directory of an interrupted run of `tune`, `tune` resumes there and does "
        "not repeat the experiments that were completed",
    )
    parser.add_argument("--yes", action="store_true", help="start without asking")


def _add_application(parser: Parser) -> None:
    parser.add_argument(
        "--ini",
        metavar="FILE",
        help="the ini file of your server. tune ignores crons, daemons, mules, spoolers, log files and sockets in this "
        "file, and prints what it ignores",
    )
    parser.add_argument(
        "--app",
        metavar="MODULE:CALLABLE",
        help="instead of --ini: the application's WSGI callable, such as shop.wsgi:application",
    )
    parser.add_argument("--chdir", metavar="DIRECTORY", help="where to start uWSGI (default: the working directory)")
    parser.add_argument(
        "--pythonpath",
        metavar="DIRECTORY",
        action="append",
        default=[],
        help="for --app: a directory from which to import the application's modules",
    )
    parser.add_argument("--virtualenv", metavar="DIRECTORY", help="for --app: the application's virtual environment")
    parser.add_argument(
        "--uwsgi",
        metavar="FILE",
        help="the uWSGI program to run (default: the one in the virtual environment, else the one on PATH)",
    )


def _add_load(parser: Parser) -> None:
    parser.add_argument(
        "--url",
        metavar="PATH",
        action="append",
        default=[],
        help="a path to request, such as '/items?page=2' (default /). If you give several paths, tune requests them in "
        "turn",
    )
    parser.add_argument(
        "--access-log",
        metavar="FILE",
        help="instead of --url: an access log in the common or combined log format; tune repeats the GET requests in "
        "it",
    )
    parser.add_argument(
        "--allow-methods",
        metavar="METHODS",
        type=expecting("methods, such as GET,HEAD", parse_methods),
        default=("GET",),
        help="with --access-log: use the log's requests with these methods (default GET); tune sends each of them as a "
        "GET, whatever its method in the log",
    )
    parser.add_argument(
        "--clients",
        metavar="NUMBER",
        type=whole_between(*CLIENTS_RANGE),
        help="the number of simulated clients; each sends its next request as soon as it has a response (default: the "
        f"total number of threads in the present setting, but at least {LEAST_CLIENTS})",
    )
    parser.add_argument(
        "--rate",
        metavar="REQUESTS",
        type=number_between(*RATE_RANGE),
        help="instead of --clients: send this many requests per second, without waiting for responses",
    )
    parser.add_argument(
        "--seconds",
        metavar="SECONDS",
        type=seconds_between(*SECONDS_RANGE),
        default=DEFAULT_SECONDS,
        help=f"how many seconds to measure in each run (default {DEFAULT_SECONDS:g})",
    )
    parser.add_argument(
        "--most-runs",
        metavar="NUMBER",
        type=whole_between(*RUNS_RANGE),
        default=DEFAULT_MOST_RUNS,
        help=f"the maximum number of runs, from {RUNS_RANGE[0]} to {RUNS_RANGE[1]} (default {DEFAULT_MOST_RUNS})",
    )


def _add_limits(parser: Parser) -> None:
    parser.add_argument(
        "--max-memory",
        metavar="SIZE",
        type=expecting("a size, such as 800M or 1.5G", parse_size),
        help="recommend only settings whose processes together take at most this much memory, such as 800M (default: "
        "the memory that is available)",
    )
    parser.add_argument(
        "--max-p99",
        metavar="TIME",
        type=expecting("a time, such as 250ms or 2s", _parse_limit),
        help="recommend only settings with which 99 of 100 requests take at most this time, such as 250ms, as measured "
        "by the clients",
    )


def _parse_limit(text: str) -> float:
    """Parse `250ms`, `2s` or `0.5` to seconds. Raises ValueError, also for 0."""
    seconds = parse_duration(text)
    if not seconds:
        raise ValueError(text)
    return seconds
