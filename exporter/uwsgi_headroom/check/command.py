"""Runs a check on the command line: prints the verdict, and the seconds left where someone watches."""

from __future__ import annotations

import asyncio
import signal
import sys

from uwsgi_headroom import logs
from uwsgi_headroom.check import json_report, text_report
from uwsgi_headroom.check.exit_status import UNKNOWN
from uwsgi_headroom.check.judge import Verdict, check
from uwsgi_headroom.config.values import parse_server_argument
from uwsgi_headroom.errors import ConfigError, ReadError
from uwsgi_headroom.terminal_text import print_lines
from uwsgi_headroom.watch import suspend
from uwsgi_headroom.watch.watch import Watch


def run(address: str, seconds: float, *, as_json: bool) -> int:
    """Check the server at this address, `NAME=ADDRESS` included, and return the exit status. Raises ConfigError."""
    logs.configure("critical", "logfmt")  # the one line below says what went wrong
    server = parse_server_argument(address, "check")
    if server.address is None:
        raise ConfigError("check looks at one server: give its address, not a glob")
    watch = Watch(server.name, server.address)
    try:
        verdict = asyncio.run(_judge(watch, seconds))
    except ReadError as error:
        return _unknown(watch, str(error))
    except (asyncio.CancelledError, KeyboardInterrupt):  # Ctrl-C; the latter before the event loop handles it
        return _unknown(watch, "interrupted before the first reading")
    print_lines(json_report.render_json(verdict).splitlines() if as_json else text_report.render_lines(verdict))
    return verdict.exit_status


def _unknown(watch: Watch, reason: str) -> int:
    print_lines([f"UNKNOWN  {watch.name}  {watch.address}: {reason}"], sys.stderr)
    return UNKNOWN


async def _judge(watch: Watch, seconds: float) -> Verdict:
    """Check a server until Ctrl-C, for `seconds` at most."""
    task = asyncio.ensure_future(check(watch, seconds, _show_progress if sys.stderr.isatty() else _show_nothing))
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
    suspend.between_reads(watch.reader.pause, watch.reader.resume)
    return await task


def _show_nothing(_left: float) -> None:
    """For when nobody looks."""


def _show_progress(left: float) -> None:
    print(f"\r\x1b[Kwatching for {left:.0f} s more (Ctrl-C: judge now) ", end="", file=sys.stderr, flush=True)
    if left <= 1:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
