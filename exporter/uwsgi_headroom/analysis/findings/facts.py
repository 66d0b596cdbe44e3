"""Facts that many rows need, by the names that the rows call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import waiting_clause
from uwsgi_headroom.analysis.routes import describe_route
from uwsgi_headroom.analysis.settings import DEFAULT_MERCY
from uwsgi_headroom.analysis.worker_states import (
    count_lost,
    count_respawns,
    mean_life,
    name_slots,
    part_away,
    see_calls,
)
from uwsgi_headroom.words.formats import listed
from uwsgi_headroom.words.template import Fact, Private

COMMON: Mapping[str, Callable[[Figures], Fact | Private]] = {
    "away": part_away,
    "calls": lambda figures: see_calls(figures.server),
    "completed": lambda figures: figures.flow.requests,
    "cpu_wait": lambda figures: figures.waits is not None and figures.share("cpu_wait"),
    "lazy": lambda figures: figures.server.setup.options.lazy_apps,
    "lives": mean_life,
    "lost": count_lost,
    "mercy": lambda figures: figures.server.setup.options.worker_reload_mercy or DEFAULT_MERCY,
    "options": lambda figures: listed([f"`{name}`" for name in figures.server.setup.options.ends_workers] or [""]),
    "reloads": lambda figures: figures.window.reloads,
    "requests": lambda figures: figures.flow.requests,
    "respawns": count_respawns,
    "route": lambda figures: Private(describe_route(figures.routes, figures.server)),
    "seconds": lambda figures: figures.window.seconds,
    "slots": lambda figures: name_slots(figures.server),
    "wait": lambda figures: waiting_clause(figures.flow),
    "workers": lambda figures: len(figures.server.workers),
}
