"""Runs `report`: checks what can be checked at once, loads the data, makes the review and writes it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TextIO

from uwsgi_headroom import logs
from uwsgi_headroom.config.http_client_file import load_optional
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.report.quarters import Progress, ReviewData
from uwsgi_headroom.report.render.html import render_html
from uwsgi_headroom.report.render.markdown import render_json, render_markdown
from uwsgi_headroom.report.request import FORMATS, Format, ReportRequest
from uwsgi_headroom.report.review import Review, build_review, write_review
from uwsgi_headroom.report.sources.history_file import load_history_files
from uwsgi_headroom.report.sources.prometheus import load_prometheus
from uwsgi_headroom.report.sources.prometheus_api import PrometheusApi, make_endpoint
from uwsgi_headroom.report.sources.selection import find_range, find_zone
from uwsgi_headroom.terminal_text import escape_text, print_lines

OUTCOMES = {False: (0, "report"), True: (3, "partial report")}
"""By whether the source failed halfway: the exit status, and what is written."""

_MOST_PROBLEMS = 8
"""Problems that are printed; the report has all of them."""


def run(request: ReportRequest) -> int:
    """Write a capacity review and return the exit status: 0, or 3 if it is partial. Raises ConfigError if an option is
    wrong, and HeadroomError if nothing can be written."""
    logs.configure("critical", "logfmt")  # messages report errors
    name, out = find_format(request), Path(request.output)
    refuse_unwritable(out)
    try:
        return _write_report(request, name, out)
    except KeyboardInterrupt:
        raise HeadroomError("interrupted: no report was written") from None


def find_format(request: ReportRequest) -> Format:
    """The format that was asked for, or that of the file's ending. Raises ConfigError."""
    if request.format:
        return request.format
    ending = Path(request.output).suffix.lower().removeprefix(".")
    names: dict[str, Format] = {"htm": "html", "markdown": "md", **{name: name for name in FORMATS}}
    if ending not in names:
        raise ConfigError(f"--output: {request.output} must end in .{', .'.join(FORMATS)}, or give --format or --json")
    return names[ending]


def refuse_unwritable(out: Path) -> None:
    """Raise HeadroomError if the file cannot be written, before anything is asked for. What is no regular file, such as
    /dev/stdout, is not tried."""
    if out.is_dir():
        raise HeadroomError(f"{out} is a directory: give a file to write")
    if out.exists() and not out.is_file():
        return
    try:
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise HeadroomError(f"{out} cannot be written: {error.strerror or error}") from None


def _write_report(request: ReportRequest, name: Format, out: Path) -> int:
    with progress_line(sys.stderr) as show:
        data = _load(request, show)
        show(1, 1, "compute and draw")
        write_file(out, render(build_review(data), name))
    problems = [*data.problems[:_MOST_PROBLEMS]]
    if more := len(data.problems) - len(problems):
        problems.append(f"{more} more are in the report.")
    print_lines((f"uwsgi-headroom: {problem}" for problem in problems), sys.stderr)
    status, what = OUTCOMES[data.partial]
    if out.is_file():  # not /dev/stdout
        print_lines([f"{what} written: {out}"])
    return status


@contextlib.contextmanager
def progress_line(file: TextIO) -> Iterator[Progress]:
    """Yields what draws a line anew for each step on a terminal, and nothing elsewhere; removes the line in the end."""
    is_terminal = file.isatty()

    def write(line: str) -> None:
        if is_terminal:
            with contextlib.suppress(OSError, ValueError, UnicodeError):  # the terminal has gone; the report has not
                file.write(f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K")
                file.flush()

    try:
        yield lambda done, of, what: write(f"  {100 * done // max(1, of):3d} %  {escape_text(what)}")
    finally:
        write("")


def _load(request: ReportRequest, progress: Progress) -> ReviewData:
    """The data of a request. Raises ConfigError if an option is wrong, and HeadroomError if there is no data."""
    span_at = partial(find_range, request.seconds, request.until, find_zone(request.time_zone))
    if request.prometheus is None:
        load = partial(load_history_files, [Path(path) for path in request.history])
    else:
        endpoint = make_endpoint(request.prometheus, load_optional(request.http_config), request.headers)
        span_at(time.time())  # a wrong time is reported before any query
        load = partial(load_prometheus, PrometheusApi(endpoint))
    return load(span_at, servers=request.servers, services=request.services, progress=progress)


def render(review: Review, name: Format) -> bytes:
    match name:
        case "html":
            return render_html(write_review(review)).encode()
        case "md":
            return render_markdown(write_review(review)).encode()
        case "json":
            return render_json(review)


def write_file(out: Path, content: bytes) -> None:
    """Write a file beside the old one and put it in its place, or directly what is no regular file, such as
    /dev/stdout. Raises HeadroomError; the file is then as it was before."""
    try:
        if out.exists() and not out.is_file():
            out.write_bytes(content)
        else:
            _replace(out, content)
    except OSError as error:
        raise HeadroomError(f"{out}: the report cannot be written: {error.strerror or error}") from error


def _replace(out: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    try:
        umask = os.umask(0)
        os.umask(umask)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            # Not by its name: in a directory of another user, that may lead elsewhere by now.
            os.fchmod(descriptor, out.stat().st_mode & 0o777 if out.exists() else 0o666 & ~umask)
        Path(temporary).replace(out)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
