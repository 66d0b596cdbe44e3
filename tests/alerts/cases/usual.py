"""Cases of the alert about servers that are slower than usual: two weeks are given hour by hour, as recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tests.alerts.cases.case import Case, Firing, acts, firing
from tests.alerts.cases.silent_causes import NORTH, OTHER, SOUTH, TARGET

RULES = ("deploys.yaml",)
USUAL = "UwsgiSlowerThanUsual"
HOURS = 15 * 24
NOW = f"{HOURS - 1}h"


def wobble(hour: int) -> float:
    """The time of a request in seconds: more in the evening, and days differ by 2 % and more."""
    day, of_day = divmod(hour, 24)
    return (0.1 + 0.05 * (of_day >= 18)) * (1 + 0.02 * (-1) ** day)


def hours(
    time: Callable[[int], float | None], rate: float = 1.0, labels: Mapping[str, str] = TARGET
) -> Sequence[dict[str, str]]:
    """What is recorded of a server, hour by hour."""
    selector = ",".join(f'{key}="{value}"' for key, value in labels.items())
    values = ["_" if (value := time(hour)) is None else f"{value:.4f}" for hour in range(HOURS)]
    rates = ["_" if value == "_" else f"{rate:g}" for value in values]
    return [
        {"series": f"server:uwsgi_response_time_seconds:ratio_rate5m{{{selector}}}", "values": " ".join(values)},
        {"series": f"server:uwsgi_timed_requests:rate5m{{{selector}}}", "values": " ".join(rates)},
    ]


def slower(factor: float, last: int = 4) -> Callable[[int], float]:
    """As on other days, but for the last hours."""
    return lambda hour: wobble(hour) * (factor if hour >= HOURS - last else 1)


def usual(name: str, series: Sequence[dict[str, str]], fires: Sequence[Firing] = ()) -> Case:
    return Case(f"{USUAL}: {name}", series, {NOW: list(fires)}, interval="1h")


def longer(labels: Mapping[str, str]) -> Firing:
    return firing(
        USUAL,
        "warning",
        f"uWSGI api on {labels['instance']}: requests take 43 % longer than usual at this hour",
        acts(
            "If the problem began with a deploy, roll the deploy back.",
            "Run `uwsgi-headroom compare api --around TIME --before 1h`: it says what changed at TIME. For TIME, use "
            "the time at which response times begin to rise on Grafana's dashboard.",
            "If the load is higher than on other days, run `uwsgi-headroom check` on the host to see how much headroom "
            "is left.",
        )
        + "In the last hour, the mean response time was 214 ms. In the same hour of the 14 days before, the mean "
        "response time was 150 ms, with a standard deviation of 3 ms between the days.",
        since="",
        **labels,
    )


CASES = [
    usual("silent: evenings that are slower every day", hours(wobble)),
    usual("silent: a server with few requests", hours(slower(1.5), rate=0.02)),
    usual("silent: days that differ by a quarter", hours(lambda hour: slower(1.4)(hour) * (1 + hour // 24 % 3 / 4))),
    usual("silent: a week of history is not enough", hours(lambda hour: slower(1.5)(hour) if hour > 200 else None)),
    usual("boundary: a tenth longer, and far more than days differ", hours(slower(1.1))),
    usual("boundary: for less than half an hour", hours(slower(1.5, last=1))),
    usual("fires: with its figures", hours(slower(1.4)), [longer(TARGET)]),
    usual("counter reset: the recorded time has none", hours(slower(1.4)), [longer(TARGET)]),
    usual(
        "missing server: it resolves when the server is gone",
        hours(lambda hour: None if hour >= HOURS - 2 else slower(1.4, last=6)(hour)),
    ),
    usual(
        "duplicate series: a server that two exporters watch, and of two that differ in a label of Prometheus the one "
        "that it is about",
        [
            *hours(slower(1.4), labels=OTHER),
            *hours(slower(1.4), labels=NORTH),
            *hours(wobble, labels=SOUTH),
        ],
        [longer(OTHER), longer(NORTH)],
    ),
]
