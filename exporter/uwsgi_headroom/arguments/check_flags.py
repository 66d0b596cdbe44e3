"""The options of `check`."""

from __future__ import annotations

from uwsgi_headroom.arguments.parser import Parser, number_between, parse_span, seconds_between
from uwsgi_headroom.check.request import FORMATS, UNSET, WATCH_SECONDS, parse_maximum, parse_minimum
from uwsgi_headroom.config.defaults import HISTORY_SECONDS, STUCK_SECONDS

DESCRIPTION = (
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
