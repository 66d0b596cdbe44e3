"""Cases of the page about an error budget. Those of the ticket, which takes days, are in `alerts/tests`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.alerts.cases.case import Case, acts, firing

RULES = ("burn_rates.yaml", "objective.yaml")
NAME = "UwsgiErrorBudgetBurning"
TARGET = {"job": "uwsgi", "instance": "web1:9238", "server": "api"}
NEIGHBOUR = {**TARGET, "instance": "web2:9238"}


@dataclass(frozen=True)
class Phase:
    """A time in which load is steady. requests, slow, lost: per minute; restart: the exporter starts again first."""

    minutes: int
    requests: float
    slow: float
    lost: float = 0
    restart: bool = False


def series(*phases: Phase, objective: float = 0.99, **labels: str) -> Sequence[Mapping[str, str]]:
    """The exporter's series of a server with an objective that goes through these phases."""
    named = {**TARGET, **labels}
    minutes = sum(phase.minutes for phase in phases)

    def one(name: str, values: str, **more: str) -> Mapping[str, str]:
        text = ",".join(f'{label}="{value}"' for label, value in {**named, **more}.items())
        return {"series": f"{name}{{{text}}}", "values": values}

    return [
        one("uwsgi_slo_threshold_seconds", f"1x{minutes}"),
        one("uwsgi_slo_objective_ratio", f"{objective}x{minutes}"),
        one("uwsgi_slo_requests_total", _counted(phases, [phase.requests for phase in phases])),
        one("uwsgi_slo_bad_requests_total", _counted(phases, [phase.slow for phase in phases]), reason="slow"),
        one("uwsgi_slo_bad_requests_total", _counted(phases, [phase.lost for phase in phases]), reason="lost"),
    ]


def _counted(phases: Sequence[Phase], rates: Sequence[float]) -> str:
    """A counter, a value for each minute and one before the first; it begins again at 0 where the exporter restarts."""
    count, values = 0.0, ["0"]
    for phase, rate in zip(phases, rates, strict=True):
        count = 0.0 if phase.restart else count
        for _ in range(phase.minutes):
            count += rate
            values.append(f"{count:.10g}")
    return " ".join(values)


KEPT = Phase(60, 600, 5)
WEST = {"cluster": "west"}

CASES = [
    Case(
        f"{NAME}: silent: 0.8 % of the requests are slow where 1 % may be; a tenth is, and no objective was set",
        [
            *series(Phase(240, 600, 5)),
            {
                "series": 'uwsgi_response_time_seconds_count{job="uwsgi",instance="web3:9238",server="api"}',
                "values": "0+600x240",
            },
            {
                "series": 'uwsgi_response_time_seconds_bucket{job="uwsgi",instance="web3:9238",server="api",le="1.0"}',
                "values": "0+540x240",
            },
        ],
        nothing_fires=["1h", "4h"],
    ),
    Case(
        f"{NAME}: silent: at night half of a few requests are slow",
        series(Phase(240, 0.25, 0.125)),
        nothing_fires=["1h", "4h"],
    ),
    Case(
        f"{NAME}: silent: all requests of three minutes are slow, within hours that are not",
        series(Phase(60, 600, 0), Phase(3, 600, 600), Phase(120, 600, 0)),
        nothing_fires=["62m", "64m", "70m", "2h"],
    ),
    Case(
        f"{NAME}: silent: the first ten minutes of a server are slow, while it fills its caches",
        series(Phase(10, 600, 300), Phase(110, 600, 3)),
        nothing_fires=["6m", "10m", "15m", "2h"],
    ),
    Case(
        f"{NAME}: boundary: 14.6 times the permitted share over an hour is a page, 14.2 times is none",
        [
            *series(Phase(60, 600, 3), Phase(70, 600, 87.6)),
            *series(Phase(60, 600, 3), Phase(70, 600, 85.2), instance="web2:9238"),
        ],
        count={"128m": 1},
        nothing_fires=["116m"],
    ),
    Case(
        f"{NAME}: boundary: 6.1 times the permitted share over six hours is a page, 5.9 times is none",
        [*series(Phase(375, 600, 36.6)), *series(Phase(375, 600, 35.4), instance="web2:9238")],
        count={"372m": 1},
        nothing_fires=["350m"],
        severity="critical",
    ),
    Case(
        f"{NAME}: boundary: with 105 requests in five minutes it is a page, with 95 it is none",
        [
            *series(Phase(60, 21, 0), Phase(60, 21, 10)),
            *series(Phase(60, 19, 0), Phase(60, 19, 10), instance="web2:9238"),
        ],
        count={"92m": 1},
    ),
    Case(
        f"{NAME}: fires: a backend is slow; requests are lost, too, and some wait in the queue",
        [
            *series(Phase(120, 600, 120, 6)),
            {
                "series": 'server:uwsgi_queue_wait_seconds:ratio_rate5m{job="uwsgi",instance="web1:9238",server="api"}',
                "values": "0.025x120",
            },
        ],
        {
            "111m": [
                firing(
                    NAME,
                    "critical",
                    "uWSGI api on web1:9238 fails its users: in the last 5m, 21.0 % of its requests were too slow, "
                    "refused or lost",
                    acts(
                        "If another alert about this uWSGI is firing, first do what that alert says: it names the "
                        "cause.",
                        "Run `uwsgi-headroom check` on the host: it shows where requests spend their time, and what to "
                        "do.",
                        "If a backend is slow, tell the team that runs it. If one kind of request is slow, tell the "
                        "developers. If clients send more requests than uWSGI can serve, rate-limit the clients in the "
                        "web server.",
                    )
                    + "In the last 5m, 21.0 % of the requests missed the objective, which permits 1.0 %. Over longer "
                    "periods, the share of requests that missed the objective was 21.0 % in 30m, 21.0 % in 1h, 21.0 % "
                    "in 6h. A request misses the objective if it takes longer than 1.0 s, including the wait in the "
                    "listen queue, or if it is refused or lost. At this rate, the error budget for a month is used up "
                    "in 1 d 10 h. Requests that were lost when workers exited or were killed, in the last 5m: 30.",
                    "00:42",
                    **TARGET,
                )
            ]
        },
    ),
    Case(
        f"{NAME}: fires: the page ends a quarter of an hour after the problem",
        series(KEPT, Phase(60, 600, 150), Phase(60, 600, 2)),
        count={"120m": 1, "130m": 1},
        nothing_fires=["70m", "150m"],
        severity="critical",
    ),
    Case(
        f"{NAME}: counter reset: an exporter that restarts hides nothing, and makes nothing",
        [
            *series(KEPT, Phase(20, 600, 150), Phase(20, 600, 150, restart=True), Phase(20, 600, 150)),
            *series(KEPT, Phase(30, 600, 3), Phase(30, 600, 3, restart=True), instance="web2:9238"),
        ],
        count={"105m": 1, "117m": 1},
    ),
    Case(
        f"{NAME}: missing server: a server that goes away takes its page with it, and one that is new has none",
        [
            *series(KEPT, Phase(60, 600, 150)),
            *series(Phase(60, 600, 0), instance="web2:9238"),
        ],
        count={"118m": 1},
        nothing_fires=["150m"],
    ),
    Case(
        f"{NAME}: duplicate series: two exporters, two jobs and two clusters are servers of their own",
        [
            *series(KEPT, Phase(60, 600, 150)),
            *series(KEPT, Phase(60, 600, 150), instance="web2:9238"),
            *series(KEPT, Phase(60, 600, 150), job="uwsgi-canary"),
            *series(KEPT, Phase(60, 600, 150), **WEST),
            *series(KEPT, Phase(60, 600, 3), cluster="east"),
        ],
        count={"114m": 4},
    ),
]
