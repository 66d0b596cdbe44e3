"""Alerts about what cannot be read: a server, an exporter, samples."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import INSTANCE, SERVER, SERVER_DASHBOARD, WHOLE, answer, asked, percent

FLEET_DASHBOARD = "/d/uwsgi-headroom-fleet?var-job={{ $labels.job | urlquery }}"


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `availability.yaml`."""
    return [Group("uwsgi-headroom availability", [_down(t), _exporter_down(t), _sampler_gaps(t)])]


def _down(t: Thresholds) -> Alert:
    """The exporter forgets a globbed server ten minutes after its socket went, and the page resolves with its series:
    a server that was removed must not page permanently, and of one that crashed somebody knows by then.
    """
    failures = f"topk(1, increase(uwsgi_exporter_read_errors_total{{$self}}[{t.down_flapping_range}]) > 0)"
    return Alert(
        alert="UwsgiDown",
        expr=f"""
avg_over_time(uwsgi_up[{t.down_flapping_range}]) < 0.5 and changes(uwsgi_up[{t.down_flapping_range}]) >= 4
or
uwsgi_up == 0""",
        hold=t.down_hold,
        severity="critical",
        summary=f"uWSGI {SERVER} on {INSTANCE} is down, or its stats server does not answer.",
        description="{{ if eq $value 0.0 }}"
        f"It could not be read for {t.down_hold} or longer"
        "{{ else }}"
        f"It keeps restarting, and was up for {percent()} of the last {t.down_flapping_range}"
        "{{ end }}"
        f'. Reads fail mostly with: {{{{ with {asked(failures)} }}}}{{{{ . | first | label "reason" }}}}'
        "{{ else }}unknown{{ end }}.\n"
        "Check first whether it serves: request a page through the web server, and see `systemctl status` and the end "
        "of uWSGI's log. `refused` and `not_found`: it is not running, or has not finished loading the application; "
        "start it, or take the last deploy back. `timeout`: the master is held up; workers may still serve. "
        "`permission`: it runs, and the exporter may not connect; see `chmod-socket`.\n"
        "A server found by a pattern (`--stats '/run/*.stats'`) is forgotten ten minutes after its socket is gone: "
        "a resolved alert does not mean that the server is back.",
        dashboard=SERVER_DASHBOARD,
    )


def _exporter_down(t: Thresholds) -> Alert:
    """Its links cannot lead to the exporter, which is down; so the first steps stand in the text."""
    return Alert(
        alert="UwsgiExporterDown",
        expr=f"""
up == 0 and ignoring (version, python_version) last_over_time(uwsgi_exporter_build_info[1d])
or
up{{job=~"{t.exporter_job}"}} == 0""",
        hold=t.exporter_down_hold,
        severity="warning",
        summary=f"The exporter of uWSGI on {INSTANCE} cannot be scraped.",
        description=f"Prometheus has had no answer for {t.exporter_down_hold} or longer. The uWSGI servers "
        "behind it are not monitored, and their alerts stay silent; the servers themselves may be fine.\n"
        "Is the host up? On it: `systemctl status uwsgi-headroom` and `journalctl -u uwsgi-headroom -n 50`, then "
        f"`curl -sS http://{INSTANCE}/metrics | head`. If that answers, Prometheus cannot reach it: see the error at "
        "Prometheus under Status, Targets; often it is a firewall, or `--web.listen-address`, which is 127.0.0.1 "
        "unless set. Meanwhile `uwsgi-headroom check` says on the host how each server is.",
        dashboard=FLEET_DASHBOARD,
    )


def _sampler_gaps(t: Thresholds) -> Alert:
    """An emperor's and a router's document are not sampled. Time in which the server was down is UwsgiDown's; a scrape
    or two that failed do not begin this anew.
    """
    r = t.sampler_gap_range
    gap, observed = (f"rate(uwsgi_exporter_{name}_seconds_total[{r}])" for name in ("sample_gap", "observed"))
    errors = f"sum(increase(uwsgi_exporter_read_errors_total{{$self}}[{r}]))"
    return Alert(
        alert="UwsgiSamplerGaps",
        expr=f"""
{gap} / ({gap} + {observed}) - (1 - avg_over_time(uwsgi_up[{r}])) > {t.sampler_gap}
and ignoring (kind, version) last_over_time(uwsgi_server_info{{kind="server"}}[{r}])
and max_over_time(uwsgi_up[{t.down_hold}]) == 1""",
        hold=t.sampler_gap_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE} is sampled only part of the time.",
        description=f"{percent()} of the last {r} is not covered by samples although the server was "
        "up, so that observed concurrency, queue wait and full occupancy may miss what happened then. Requests, "
        "response times and shares are not affected.\n"
        f"{answer(errors, WHOLE)} reads failed meanwhile: the exporter's log says why. If none did, the exporter "
        "itself got no CPU (its cgroup's quota, a busy host) or was paused; its interval between samples is "
        f"{answer('uwsgi_exporter_sampling_interval_seconds{$self}', 'humanizeDuration')}.",
        dashboard=SERVER_DASHBOARD,
    )
