"""Facts that many rows need, by the names that the rows call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import waiting_clause
from uwsgi_headroom.words.template import Fact, Private

COMMON: Mapping[str, Callable[[Figures], Fact | Private]] = {
    "seconds": lambda figures: figures.window.seconds,
    "wait": lambda figures: waiting_clause(figures.flow),
}
