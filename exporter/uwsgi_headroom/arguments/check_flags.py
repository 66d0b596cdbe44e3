"""The options of `check`."""

from __future__ import annotations

from uwsgi_headroom.arguments.parser import Parser, number_between, parse_span, seconds_between
from uwsgi_headroom.check.request import FORMATS, UNSET, WATCH_SECONDS, parse_maximum, parse_minimum
from uwsgi_headroom.config.defaults import HISTORY_SECONDS, STUCK_SECONDS

DESCRIPTION = (
    "Watch servers, then print a verdict and what to change. With several servers, print one line for each server, "
    "the worst first, then the details of each server that is not OK. The exit status is the verdict, as for a "
    "Nagios plugin. With several servers, the worst server decides the exit status: critical is worse than warning, "
    "warning is worse than unknown, and unknown is worse than OK."
)


def add_http_config_flag(parser: Parser) -> None:
    """Add the option with the access to exporters, which `top` has too."""
    parser.add_argument(
        "--http.config.file",
        dest="http_config_file",
        metavar="FILE",
        help="a file with the login, the certificates to trust or the client certificate for an exporter, in the "
        "format of promtool's --http.config.file",
    )


def add_check_flags(parser: Parser) -> None:
    """Add the options of `check`."""
    parser.add_argument(
        "addresses",
        metavar="ADDRESS",
        nargs="*",
        help="the address of a stats server, or a glob, as for `serve --stats`; or the URL of an exporter, or of one "
        "server's page: the exporter then answers at once, from its history",
    )
    add_http_config_flag(parser)
    parser.add_argument("--all", action="store_true", help="check every server found on this machine")
    parser.add_argument(
        "--seconds",
        metavar="SECONDS",
        type=seconds_between(2, HISTORY_SECONDS),
        help=f"how many seconds to watch (default {WATCH_SECONDS:g}). An exporter does not watch for this time: it "
        "answers at once, for its shortest window (`serve --window`) that is at least this long",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="text; json prints one document, even after a failure; nagios prints one line with performance data "
        "(default text)",
    )
    parser.add_argument(
        "--stuck",
        metavar="AGE",
        help=f"a request that has been in service for this long counts as stuck, 1s to 24h (default "
        f"{STUCK_SECONDS:g}s)",
    )
    parser.add_argument(
        "--read-locks",
        action="store_true",
        help="read from the workers' memory, eight bytes for each lock of the application, whether the lock is held: "
        "check then knows exactly how busy the lock is",
    )
    parser.add_argument(
        "--read-pollfds",
        choices=("true", "false"),
        help="read from the workers' memory, eight bytes for each file descriptor, which descriptors a thread polls: "
        "check then knows which backend the thread waits for (default true)",
    )
    parser.add_argument(
        "--code",
        action="store_true",
        help="also read from the workers' memory, ten times a second, which Python function and line each busy thread "
        "runs, and print the functions that take the most time. Names, files and line numbers are read, values are not",
    )
    parser.add_argument(
        "--code-prefix",
        metavar="PATH",
        action="append",
        help="with --code: the path with which the application's files begin, such as /srv/shop/ (default: all files "
        "except Python's own and those in site-packages); repeatable",
    )
    parser.add_argument(
        "--log",
        metavar="[NAME=]PATH",
        action="append",
        help="also read uWSGI's log (a regular file), and name causes that only the log shows. NAME is the server's "
        "name; you may omit NAME if there is only one server. Repeatable",
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
        help="for a deploy pipeline: also compare the requests since the last reload or restart of uWSGI with "
        "earlier requests. The verdict is critical if requests are slower, use more CPU or fail more often, or if "
        "memory grows. The verdict is unknown until there are enough requests to judge. Needs an exporter",
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
        help="with --since-reload: ignore reloads before this time, in seconds since 1970, as `date +%%s` prints them",
    )
    parser.add_argument(
        "--min-headroom",
        metavar="WARNING[:CRITICAL]",
        type=parse_minimum,
        default=UNSET,
        help="warn if headroom is below this number, such as 2:1.2; headroom 2 means that the load can double",
    )
    parser.add_argument(
        "--max-queue-wait",
        metavar="WARNING[:CRITICAL]",
        type=parse_maximum,
        default=UNSET,
        help="warn if the average wait in the listen queue is longer than this time, such as 100ms:2s",
    )
    parser.add_argument(
        "--max-response-time",
        metavar="WARNING[:CRITICAL]",
        type=parse_maximum,
        default=UNSET,
        help="warn if the average response time is longer than this time, such as 500ms:2s",
    )
    parser.add_argument(
        "--max-p95",
        metavar="WARNING[:CRITICAL]",
        type=parse_maximum,
        default=UNSET,
        help="warn if the 95th percentile of response times inside uWSGI, estimated from samples, is longer than this "
        "time, such as 800ms:2s. The shortest time allowed is twice the time between samples: 50ms if check reads a "
        "stats server",
    )
    parser.add_argument(
        "--max-p99",
        metavar="WARNING[:CRITICAL]",
        type=parse_maximum,
        default=UNSET,
        help="warn if the 99th percentile of response times is longer than this time; check needs at least 100 "
        "requests to judge it. Your thresholds add to the checks that always apply, and never improve a verdict",
    )
