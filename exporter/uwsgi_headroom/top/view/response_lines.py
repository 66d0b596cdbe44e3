"""Builds the lines of a server's head about percentiles of response times, and about the service level objective."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from uwsgi_headroom.analysis.percentiles import SHARES
from uwsgi_headroom.documents.response_time_words import describe_objective, list_percentiles
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.terminal_text import wrap
from uwsgi_headroom.top.feeds.feed import Trend
from uwsgi_headroom.top.view.spark import with_spark

_LABEL = len("response     ")
_WORDS = "; inside uWSGI, estimated"
_FEW = (0.5, 0.95, 0.99)
_LEVELS = {"fast": "bold red", "slow": "bold yellow", None: ""}


def percentile_lines(server: Server, trend: Trend, width: int) -> Iterator[Text]:
    """Build the line of the percentiles, with as much about each as fits; none if they are not known."""
    section = server.response_times
    if section is None or server.state == "down":
        return
    choices = (
        ", ".join(list_percentiles(section)),
        ", ".join(list_percentiles(section, _FEW)),
        ", ".join(list_percentiles(section, _FEW, short=True)),
        ", ".join(list_percentiles(section, _FEW[1:], short=True)),
        ", ".join(list_percentiles(section, _FEW[1:2], short=True)),
    )
    room = width - _LABEL
    text = next((choice for choice in choices if cell_len(choice) <= room), choices[-1])
    text += _WORDS if cell_len(text + _WORDS) <= room else ""
    line = Text("response     ", "bold").append(text, "not bold")
    yield with_spark(line, trend.response_times.column(SHARES[2]), None, trend.step, width)


def objective_lines(server: Server, width: int) -> list[Text]:
    """Build the lines about the objective; none if the server has none."""
    objective = server.objective
    if objective is None or server.state == "down":
        return []
    wrapped = wrap(describe_objective(objective), width, "objective    ", " " * _LABEL)
    lines = [Text(text, _LEVELS[objective.level]) for text in wrapped]
    lines[0].stylize("bold", 0, _LABEL)
    return lines
