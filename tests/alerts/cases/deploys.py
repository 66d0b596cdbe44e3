"""Cases of the alert about what a reload changed."""

from __future__ import annotations

from tests.alerts.cases.case import Case
from tests.alerts.cases.silent_causes import State, six

RULES = ("recording.yaml", "deploys.yaml")


def judged(*worse: str) -> State:
    """What the exporter says of a deploy."""
    return {
        f'uwsgi_deploy_worse{{quantity="{quantity}"}}': float(quantity in worse)
        for quantity in ("time", "cpu", "errors", "memory")
    }


CASES: list[Case] = [
    *six(
        "UwsgiSlowerSinceReload",
        judged(),
        judged(),
        judged("errors"),
        " is worse since its last reload.",
        "Since then more requests fail. At most one of 200 deploys without a change is judged so.\n"
        "`uwsgi-headroom compare SERVER` says by how much, and what requests wait for. If the reload was a deploy, "
        "roll it back, or find the change in that part.",
    )
]
