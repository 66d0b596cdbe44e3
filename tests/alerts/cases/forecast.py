"""Cases of the forecast. Four weeks of counters per minute would take minutes, so the input is daily figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, pi

from tests.alerts.cases.case import Case, Firing, acts, firing

RULES = ("capacity.yaml",)
ALERT = "UwsgiHeadroomForecast"
TARGET = {"job": "uwsgi", "instance": "web1:9238", "server": "api"}
OTHER = {"job": "uwsgi-canary", "instance": "web1:9239", "server": "api"}
NORTH, SOUTH = ({**TARGET, "cluster": cluster} for cluster in ("north", "south"))
DAYS = 28


def days(utilization: Callable[[int], float | None], count: int = DAYS, **labels: str) -> Sequence[dict[str, str]]:
    """The 0.95 quantile of each day, ending today; None for a day without a figure."""
    selector = ",".join(f'{name}="{value}"' for name, value in {**TARGET, **labels}.items())
    values = [utilization(day) for day in range(-count, 0)]
    return [
        {
            "series": f"server:uwsgi_utilization:p95_1d{{{selector}}}",
            "values": " ".join("_x23" if value is None else f"{value:.4f}x23" for value in values),
        }
    ]


def week(day: int) -> float:
    """A working week: Saturday and Sunday have a third of the load of the other days."""
    return 0.2 if day % 7 in (5, 6) else 0.6


def wobble(day: int) -> float:
    """Noise around the trend: an alternating part and an irregular one."""
    return 0.02 * cos(pi * day) + 0.02 * cos(day * day)


def growth(points: float, now: float = 0.7) -> Callable[[int], float]:
    """Utilization that grows by `points` hundredths per day."""
    return lambda day: now + points / 100 * day + wobble(day)


def case(name: str, series: Sequence[dict[str, str]], fires: Sequence[Firing] = (), at: str = "650h") -> Case:
    """A case, evaluated at two o'clock of the 28th day by default."""
    return Case(f"{ALERT}: {name}", series, {at: list(fires)}, interval="1h")


def expected(points: str, count: int, day: str, now: int = 68, **labels: str) -> Firing:
    """The alert: growth in points per week, over `count` days, and the day when the limit is reached."""
    return firing(
        ALERT,
        "info",
        f"uWSGI api on {labels['instance']} will be near capacity around {day}",
        acts(
            "Open Grafana's dashboard `Capacity review` to see whether the load grows steadily, or whether one event "
            "raised it.",
            "Plan for more `processes` and CPUs, or another host.",
            "If the threads mostly wait for a lock, for slow clients or for a backend at its limit, fix that cause "
            "before you add capacity.",
        )
        + f"In the busiest 5 % of the last day, at least {now} % of all threads were busy. The share of busy threads "
        f"grows by {points} percentage points per week. If this trend of {count} days continues, the share reaches 90 "
        f"% around {day}. From then on, the alert UwsgiConcurrencyNearCapacity pages you if requests also wait in the "
        "listen queue.",
        "",
        **labels,
    )


def _without(utilization: Callable[[int], float], *gone: int) -> Callable[[int], float | None]:
    return lambda day: None if day in gone else utilization(day)


CASES = [
    case("silent: steady load", days(growth(0))),
    case("silent: a working week is no trend", days(week)),
    *[
        case(
            f"silent: a working week that began {shift} days later is no trend",
            days(lambda day, by=shift: week(day - by)),
        )
        for shift in range(1, 7)
    ],
    case("silent: falling load", days(growth(-1))),
    case("silent: one busy day at the end is no trend", days(lambda day: 0.85 if day == -1 else 0.5 + wobble(day))),
    case("silent: load that jumped once and stays is over before a forecast is of use", days(growth(1, now=0.95))),
    case("boundary: growth that reaches capacity after more than four weeks", days(growth(0.6))),
    case(
        "boundary: growth that reaches it within four weeks",
        days(growth(0.85)),
        [expected("5.9", 28, "21 February 1970", **TARGET)],
    ),
    case("boundary: thirteen days are too few", days(growth(1.5), 13), at="310h"),
    Case(
        f"{ALERT}: boundary: fourteen days are enough, an hour after the last began",
        days(growth(1.5), 14),
        {"312h": []},
        {"314h": 1},
        interval="1h",
    ),
    case("boundary: a trend lost in what is not trend", days(lambda day: 0.7 + 0.01 * day + 0.3 * cos(pi * day))),
    case("fires: growth by a point a day", days(growth(1)), [expected("7.0", 28, "18 February 1970", **TARGET)]),
    case(
        "counter reset: days without figures, and one cut short by a full reload, do not hide it",
        days(_without(growth(1), -20, -12, -11)),
        [expected("7.0", 25, "18 February 1970", **TARGET)],
    ),
    case("missing server: a server that is gone has no future", days(growth(1)), at="676h"),
    case("missing server: none", []),
    case(
        "duplicate series: a server that two exporters watch, and of two that differ in a label of Prometheus the one "
        "that grows",
        [*days(growth(1), **OTHER), *days(growth(1), **NORTH), *days(growth(0), **SOUTH)],
        [
            expected("7.0", 28, "18 February 1970", **OTHER),
            expected("7.0", 28, "18 February 1970", **NORTH),
        ],
    ),
]
