"""The alert about what a reload or restart changed. The exporter judges it (docs/deploys.md); the rule passes it on."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import INSTANCE, SERVER, SERVER_DASHBOARD, asked


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `deploys.yaml`."""
    return [Group("uwsgi-headroom deploys", [_slower(t)])]


_WORDS = {
    "time": "requests take longer",
    "cpu": "requests use more CPU time",
    "errors": "more requests fail",
    "memory": "the memory of the workers grows",
}


def _slower(t: Thresholds) -> Alert:
    worse = "uwsgi_deploy_worse{$self} == 1"
    named = "".join(
        f'{{{{ if eq ($each | label "quantity") "{quantity}" }}}}{words}{{{{ end }}}}'
        for quantity, words in _WORDS.items()
    )
    return Alert(
        alert="UwsgiSlowerSinceReload",
        expr="max without (quantity) (uwsgi_deploy_worse) == 1",
        hold=t.deploy_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE} is worse since its last reload.",
        description=f"Since then {{{{ range $place, $each := {asked(worse)} }}}}"
        f"{{{{ if $place }}}}, and {{{{ end }}}}{named}{{{{ end }}}}. At most one of 200 deploys without a change is "
        "judged so.\n"
        "`uwsgi-headroom compare` says by how much, and what requests wait for. If the reload was a deploy, roll it "
        "back, or find the change in that part.",
        dashboard=SERVER_DASHBOARD,
    )
