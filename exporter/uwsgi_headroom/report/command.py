"""Runs `report`: checks what can be checked at once, then loads the libraries of the extra, which takes a second."""

from __future__ import annotations

import tempfile
from pathlib import Path

from uwsgi_headroom import extras, interrupts, logs
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.report.request import FORMATS, Format, ReportRequest

NEEDED = ("jinja2", "matplotlib", "numpy")
"""The modules of the extra `report`."""


def run(request: ReportRequest) -> int:
    """Write a capacity review and return the exit status: 0, or 3 if it is partial. Raises ConfigError if an option is
    wrong, and HeadroomError if nothing can be written."""
    logs.configure("critical", "logfmt")  # messages report errors
    name = find_format(request)
    refuse_unwritable(Path(request.out))
    refuse_without_extra()
    with interrupts.ending_the_process():
        from uwsgi_headroom.report import write  # noqa: PLC0415 - needs the extra, and takes a second
    try:
        return write.write_report(request, name)
    except KeyboardInterrupt:
        raise HeadroomError("interrupted: no report was written") from None


def refuse_without_extra() -> None:
    """Raise HeadroomError with what to install if a library of the extra is missing."""
    if missing := extras.find_missing(NEEDED):
        raise HeadroomError(f"report needs {extras.describe_missing(missing)}")


def find_format(request: ReportRequest) -> Format:
    """The format that was asked for, or that of the file's ending. Raises ConfigError."""
    if request.format:
        return request.format
    ending = Path(request.out).suffix.lower().removeprefix(".")
    names: dict[str, Format] = {"htm": "html", "markdown": "md", **{name: name for name in FORMATS}}
    if ending not in names:
        raise ConfigError(f"--out: {request.out} must end in .{', .'.join(FORMATS)}, or give --format")
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
