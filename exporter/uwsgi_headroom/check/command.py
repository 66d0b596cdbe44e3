"""Runs a check on the command line: prints the verdict, and the seconds left where someone watches."""

from __future__ import annotations

import asyncio
import signal
import sys

from uwsgi_headroom import logs
from uwsgi_headroom.check import json_report, text_report
from uwsgi_headroom.check.judge import UNREADABLE, Verdict, check
from uwsgi_headroom.config.values import parse_server_argument
from uwsgi_headroom.errors import ConfigError, ReadError
from uwsgi_headroom.watch import suspend
from uwsgi_headroom.watch.watch import Watch


def run(address: str, seconds: float, *, as_json: bool) -> int:
    """Check the server at this address, `NAME=ADDRESS` included, and return the exit status. Raises ConfigError."""
    logs.configure("error", "logfmt")
    server = parse_server_argument(address, "check")
    if server.address is None:
        raise ConfigError("check looks at one server: give its address, not a glob")
    watch = Watch(server.name, server.address)
    try:
        verdict = asyncio.run(_judge(watch, seconds))
    except ReadError as error:
        print(f"UNKNOWN  {server.name}  {server.address}: {error}", file=sys.stderr)
        return UNREADABLE
    except asyncio.CancelledError:
        print(f"UNKNOWN  {server.name}  {server.address}: interrupted before the first reading", file=sys.stderr)
        return UNREADABLE
    print(json_report.render_json(verdict) if as_json else text_report.render_text(verdict))
    return verdict.exit_status


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
