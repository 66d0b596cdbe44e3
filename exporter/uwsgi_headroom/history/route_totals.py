"""The totals of the routes of one server."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(slots=True)
class RouteTotals:
    """Busy thread seconds of the routes of a server, by the number of the route (`RouteBook`).

    seconds: since the first sample; never reset. names, generations: as in the last sample.
    bases: what `seconds` was when the route got its number. observed_seconds: time in which the routes are known.
    """

    seconds: list[float] = field(default_factory=list)
    names: tuple[str, ...] = ()
    generations: tuple[int, ...] = ()
    bases: list[float] = field(default_factory=list)
    observed_seconds: float = 0.0

    def by_route(self) -> dict[str, float]:
        """Busy thread seconds of each route since it got its name."""
        return {name: self.seconds[number] - self.bases[number] for number, name in enumerate(self.names) if name}


def copy_routes(routes: RouteTotals) -> RouteTotals:
    """A copy that later samples do not change."""
    return replace(routes, seconds=list(routes.seconds), bases=list(routes.bases))
