"""The flags of `serve`, each with its environment variable."""

from __future__ import annotations

import argparse

from uwsgi_headroom.config import defaults
from uwsgi_headroom.config.variables import PREFIX


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `serve`."""
    parser.add_argument(
        "--stats",
        action="append",
        metavar="[NAME=]ADDRESS",
        help="a stats server: unix:///path, unix:@abstract, tcp://host:port, http://host:port, file:///path, "
        "a bare path or host:port, or a glob of UNIX sockets; repeatable. Without any, the exporter finds local "
        "uWSGI masters" + _also("stats", "separated by spaces"),
    )
    parser.add_argument("--config", metavar="FILE", help="a configuration file (YAML)" + _also("config"))
    parser.add_argument(
        "--web.listen-address",
        action="append",
        dest="web_listen_address",
        metavar="HOST:PORT",
        help=f"where to serve metrics; repeatable (default {defaults.LISTEN_ADDRESS})"
        + _also("web_listen_address", "separated by spaces"),
    )
    parser.add_argument(
        "--web.allowed-hosts",
        action="append",
        dest="web_allowed_hosts",
        metavar="NAME",
        help="a host name under which the page and the API may be requested, besides IP addresses, localhost and this "
        "machine's name; repeatable. Other names are refused on loopback, and on every address if this flag is given"
        + _also("web_allowed_hosts", "separated by spaces"),
    )
    parser.add_argument(
        "--web.config.file",
        dest="web_config_file",
        metavar="FILE",
        help="TLS and login, in the format of Prometheus exporters (default: neither)" + _also("web_config_file"),
    )
    parser.add_argument(
        "--samples-per-second",
        metavar="NUMBER",
        help="reads of each server per second, {:g} to {:g} (default {:g})".format(
            *defaults.SAMPLES_PER_SECOND_RANGE, defaults.DEFAULT_SAMPLES_PER_SECOND
        )
        + _also("samples_per_second"),
    )
    parser.add_argument(
        "--window",
        action="append",
        metavar="LENGTH",
        help="a window over which figures are averaged, 10s to 1h; repeatable (default 1m and 5m)"
        + _also("window", "separated by spaces"),
    )
    parser.add_argument(
        "--slo",
        metavar="THRESHOLD:OBJECTIVE",
        help="a service level objective for every server without its own: 1s:99%% for 99 of 100 requests within a "
        "second" + _also("slo"),
    )
    parser.add_argument(
        "--stuck",
        metavar="AGE",
        help="the age from which on a request in service counts as stuck, 1s to 24h, for every server without its own "
        "(default 30s)" + _also("stuck"),
    )
    parser.add_argument(
        "--cpu-residency",
        nargs="?",
        const="true",
        metavar="true|false",
        help="also export CPU time by worker and CPU: workers x CPUs more series (default false)"
        + _also("cpu_residency"),
    )
    parser.add_argument(
        "--waits",
        nargs="?",
        const="true",
        metavar="true|false",
        help="read what request threads wait for, where the kernel permits it (default true)" + _also("waits"),
    )
    parser.add_argument(
        "--backends",
        action="append",
        metavar="NAME=ADDRESS",
        help="a name for what request threads wait for: 10.0.0.5:5432, *:5432 for a port on any host, or the path of "
        "a UNIX socket; repeatable, 20 at most" + _also("backends", "separated by spaces"),
    )
    parser.add_argument(
        "--read-pollfds",
        nargs="?",
        const="true",
        metavar="true|false",
        help="read from the workers' memory which descriptors a thread polls, eight bytes each, to know which backend "
        "it waits for (default false)" + _also("read_pollfds"),
    )
    parser.add_argument(
        "--routes",
        nargs="?",
        const="true",
        metavar="true|false",
        help="show which routes hold the busy threads, from the method and path of requests in service (default "
        "false). Paths are other people's data: only on loopback" + _also("routes"),
    )
    parser.add_argument(
        "--route-template",
        action="append",
        metavar="TEMPLATE",
        help="a path such as /orders/{id}, for routes: paths that match it are one route; repeatable"
        + _also("route_template", "separated by spaces"),
    )
    parser.add_argument(
        "--routes-beyond-loopback",
        nargs="?",
        const="true",
        metavar="true|false",
        help="serve routes on addresses that other machines can reach, without a login (default false)"
        + _also("routes_beyond_loopback"),
    )
    parser.add_argument(
        "--history",
        metavar="FILE",
        help="keep the history in this file (SQLite): minutes for 14 days, quarters of an hour for 90 days, hours for "
        "2 years (default: the last hour, in memory)" + _also("history"),
    )
    parser.add_argument(
        "--history-max-size",
        metavar="SIZE",
        help="the most that the history file may take, such as 500MB; the oldest minutes are deleted first (default "
        "1GB)" + _also("history_max_size"),
    )
    parser.add_argument(
        "--log.level",
        dest="log_level",
        metavar="LEVEL",
        help=f"{', '.join(defaults.LOG_LEVELS)} (default info)" + _also("log_level"),
    )
    parser.add_argument(
        "--log.format",
        dest="log_format",
        metavar="FORMAT",
        help=f"{' or '.join(defaults.LOG_FORMATS)} (default logfmt)" + _also("log_format"),
    )


def _also(name: str, how: str = "") -> str:
    return f" [{PREFIX}{name.upper()}{', ' + how if how else ''}]"
