"""The options of the commands that have many: `check`, `report` and `tune`."""

from __future__ import annotations

from uwsgi_headroom.arguments.parser import (
    Parser,
    expecting,
    number_between,
    parse_span,
    seconds_between,
    whole_between,
)
from uwsgi_headroom.check.request import FORMATS, UNSET, WATCH_SECONDS, parse_maximum, parse_minimum
from uwsgi_headroom.config.defaults import HISTORY_SECONDS, STUCK_SECONDS
from uwsgi_headroom.numbers import parse_duration
from uwsgi_headroom.report import request as report_request
from uwsgi_headroom.report.request import DEFAULT_OUT, DEFAULT_RANGE, parse_range
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

CHECK_DESCRIPTION = (
    "Watch servers, then print a verdict and what to change. With several servers, print a line for each, worst first, "
    "then the details of those that are not OK. The exit status is that of a monitoring plugin. With several servers, "
    "it is the worst of theirs: critical before warning, warning before unknown, unknown before OK."
)


def add_http_config_flag(parser: Parser) -> None:
    """Add the option with the access to exporters, which `top` has too."""
    parser.add_argument(
        "--http.config.file",
        dest="http_config_file",
        metavar="FILE",
        help="a login, certificates to trust or a client certificate for exporters, in the format of Prometheus' HTTP "
        "client configuration, as promtool reads it",
    )


def add_check_flags(parser: Parser) -> None:
    """Add the options of `check`."""
    parser.add_argument(
        "addresses",
        metavar="ADDRESS",
        nargs="*",
        help="a stats server or a glob, as for --stats, or the URL of an exporter or of a server's page on it: the "
        "exporter then answers at once, from its history",
    )
    add_http_config_flag(parser)
    parser.add_argument("--all", action="store_true", help="check every server found on this machine")
    parser.add_argument(
        "--seconds",
        metavar="SECONDS",
        type=seconds_between(2, HISTORY_SECONDS),
        help=f"how long to watch (default {WATCH_SECONDS:g}); for an exporter, judge its shortest window of at least "
        "this length",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="text; json: one document, even after a failure; nagios: one line with performance data (default text)",
    )
    parser.add_argument(
        "--stuck",
        metavar="AGE",
        help=f"the age at which a request in service counts as stuck, 1s to 24h (default {STUCK_SECONDS:g}s)",
    )
    parser.add_argument(
        "--read-locks",
        action="store_true",
        help="read from the workers' memory whether a lock of the application is held, eight bytes each, to know its "
        "limit exactly",
    )
    parser.add_argument(
        "--read-pollfds",
        choices=("true", "false"),
        help="read from the workers' memory which descriptors a thread polls, eight bytes each, to know which backend "
        "it waits for (default true)",
    )
    parser.add_argument(
        "--code",
        action="store_true",
        help="also read from the workers' memory, ten times a second, in which function and line the busy Python "
        "threads are, and show those that take the most time: names, files and lines, no values",
    )
    parser.add_argument(
        "--code-prefix",
        metavar="PATH",
        action="append",
        help="with --code: the application's files begin with this path, such as /srv/shop/ (default: files that are "
        "in no site-packages, and not Python's own); repeatable",
    )
    parser.add_argument(
        "--log",
        metavar="[NAME=]PATH",
        action="append",
        help="also read uWSGI's log (a regular file), and name causes that only the log shows. NAME is the server's "
        "name; you may omit it if there is only one server. Repeatable",
    )
    parser.add_argument(
        "--what-if",
        metavar="PROCESSESxTHREADS",
        action="append",
        help="also predict throughput, response time and memory of a setting, such as 8x4: 8 processes with 4 threads "
        "each; repeatable, or separated by commas",
    )
    parser.add_argument(
        "--since-reload",
        action="store_true",
        help="also judge what the last reload or restart changed, for a pipeline: critical if requests are slower, use "
        "more CPU or fail more often, or memory grows; unknown while that is not certain. Needs an exporter",
    )
    parser.add_argument(
        "--wait",
        metavar="TIME",
        type=parse_span(0, 3600),
        default=0.0,
        help="with --since-reload: wait at most this long for a verdict, such as 10m (default 0)",
    )
    parser.add_argument(
        "--not-before",
        metavar="SECONDS",
        type=number_between(0, 1e12),
        help="with --since-reload: an earlier reload does not count; seconds since 1970, as of `date +%%s`",
    )
    parser.add_argument(
        "--min-headroom",
        metavar="WARNING[:CRITICAL]",
        type=parse_minimum,
        default=UNSET,
        help="warn if headroom, the factor by which load can grow, is below this, such as 2:1.2",
    )
    parser.add_argument(
        "--max-queue-wait",
        metavar="WARNING[:CRITICAL]",
        type=parse_maximum,
        default=UNSET,
        help="warn if requests wait longer than this in the listen queue on average, such as 100ms:2s",
    )
    parser.add_argument(
        "--max-response-time",
        metavar="WARNING[:CRITICAL]",
        type=parse_maximum,
        default=UNSET,
        help="warn if requests take longer than this on average",
    )
    parser.add_argument(
        "--max-p95",
        metavar="WARNING[:CRITICAL]",
        type=parse_maximum,
        default=UNSET,
        help="warn if the 95th percentile of response times inside uWSGI, estimated from samples, is above this, such "
        "as 800ms:2s; at least two times between samples, 50ms if check watches a server itself",
    )
    parser.add_argument(
        "--max-p99",
        metavar="WARNING[:CRITICAL]",
        type=parse_maximum,
        default=UNSET,
        help="the same for the 99th percentile; at least 100 requests are needed. Thresholds add to the checks that "
        "always apply, and never improve a verdict",
    )


REPORT_DESCRIPTION = (
    "Write a capacity review of uWSGI servers from weeks of their history: how much of each limit is used at peak, "
    "what users feel, how the load grows, and what to change. The history is in a Prometheus that scrapes the "
    "exporter, or in the file that `serve --history` writes. Needs the extra `report`."
)


def add_report_flags(parser: Parser) -> None:
    """Add the options of `report`."""
    parser.add_argument("--prometheus", metavar="URL", help="a Prometheus, or another store with its API")
    parser.add_argument(
        "--history",
        metavar="FILE",
        action="append",
        default=[],
        help="a history file of an exporter. Give one for each machine: servers of one name are then one service",
    )
    _add_choice(parser)
    _add_access(parser)


def _add_choice(parser: Parser) -> None:
    parser.add_argument(
        "--server", metavar="NAME", action="append", default=[], help="review this server only. May be repeated"
    )
    parser.add_argument(
        "--service", metavar="NAME", action="append", default=[], help="review this service only. May be repeated"
    )
    parser.add_argument(
        "--range",
        metavar="TIME",
        type=parse_range,
        default=DEFAULT_RANGE,
        help="how much time to review, up to now or to --until, such as 36h, 30d or 12w (default 30d)",
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="the end of the range, such as 2026-10-01 or 2026-10-01T12:00 (default: now, or the end of the records)",
    )
    parser.add_argument(
        "--time-zone", metavar="ZONE", help="of days and hours, such as Europe/Berlin (default: that of this machine)"
    )
    parser.add_argument("--out", metavar="FILE", default=DEFAULT_OUT, help=f"the file to write (default {DEFAULT_OUT})")
    parser.add_argument("--format", choices=report_request.FORMATS, help="default: by the ending of --out")


def _add_access(parser: Parser) -> None:
    parser.add_argument("--prometheus-user", metavar="NAME", help="log in as this user. The URL may name it, too")
    parser.add_argument(
        "--prometheus-password-file",
        metavar="FILE",
        help="a file with the user's password: a password in an argument would be visible in the process list",
    )
    parser.add_argument("--prometheus-token-file", metavar="FILE", help="log in with the bearer token in this file")
    parser.add_argument(
        "--prometheus-header",
        metavar="NAME:VALUE",
        action="append",
        default=[],
        help="a header for each request, such as 'X-Scope-OrgID: shop'. May be repeated",
    )
    parser.add_argument(
        "--ca-file", metavar="FILE", help="certificates to trust, beside those of the system, in PEM format"
    )


TUNE_DESCRIPTION = (
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
