"""Cases of the alert about what a reload changed."""

from __future__ import annotations

from tests.alerts.cases.case import Case, acts
from tests.alerts.cases.silent_causes import State, six

RULES = ("recording.yaml", "deploys.yaml")


def judged(*worse: str) -> State:
    """What the exporter says of a deploy."""
    quantities = {
        f'uwsgi_deploy_worse{{quantity="{quantity}"}}': float(quantity in worse)
        for quantity in ("time", "cpu", "errors", "memory")
    }
    return {**quantities, "uwsgi_last_reload_time_seconds": 300.0}


CASES: list[Case] = [
    *six(
        "UwsgiSlowerSinceReload",
        judged(),
        judged(),
        judged("errors"),
        "uWSGI api on INSTANCE has been worse since its reload at 1 Jan 00:05 UTC",
        acts(
            "If this reload was a deploy, roll the deploy back.",
            "Run `uwsgi-headroom compare api` on the host: it says how much changed, and what requests wait for.",
            "If the new version must stay, start with what `compare` names as the cause: CPU, a backend, a lock or "
            "memory.",
        )
        + "Since the reload, more requests fail. This may be chance: the alert fires after at most one in 200 deploys "
        "that change nothing.",
        since="",
    )
]
