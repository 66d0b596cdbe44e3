"""Alerts about a server that cannot be read, an exporter that cannot be scraped, and missing samples."""

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
    """Pages for a server that is down. The exporter forgets a globbed server ten minutes after its socket is gone, and
    the page resolves with its series: a removed server must not page permanently, and a crash is known by then.
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
        f"The server could not be read for {t.down_hold} or longer"
        "{{ else }}"
        f"The server keeps restarting, and was up for {percent()} of the last {t.down_flapping_range}"
        "{{ end }}"
        f'. Reads fail mostly with: {{{{ with {asked(failures)} }}}}{{{{ . | first | label "reason" }}}}'
        "{{ else }}unknown{{ end }}.\n"
        "First check whether it serves requests: open a page through the web server, and see `systemctl status` and "
        "the end of uWSGI's log. `refused` and `not_found`: it is not running, or has not finished loading the "
        "application; start it, or roll back the last deploy. `timeout`: the master is held up; workers may still "
        "serve. `permission`: it runs, but the exporter is not allowed to connect; see `chmod-socket`.\n"
        "The exporter forgets a server found by a pattern (`--stats '/run/*.stats'`) ten minutes after its socket is "
        "gone: a resolved alert does not mean that the server is back.",
        dashboard=SERVER_DASHBOARD,
    )


def _exporter_down(t: Thresholds) -> Alert:
    """A ticket for an exporter that cannot be scraped. The text has the first steps, because its runbook link leads to
    the exporter, which is down.
    """
    return Alert(
        alert="UwsgiExporterDown",
        expr=f"""
up == 0 and ignoring (version, python_version) last_over_time(uwsgi_exporter_build_info[1d])
or
up{{job=~"{t.exporter_job}"}} == 0""",
        hold=t.exporter_down_hold,
        severity="warning",
        summary=f"The uWSGI exporter on {INSTANCE} cannot be scraped.",
        description=f"Prometheus has had no answer for {t.exporter_down_hold} or longer. The uWSGI servers "
        "behind it are not monitored, and their alerts stay silent; the servers themselves may be fine.\n"
        "Check that the host is up. On it, run `systemctl status uwsgi-headroom` and "
        f"`journalctl -u uwsgi-headroom -n 50`, then `curl -sS http://{INSTANCE}/metrics | head`. If the exporter "
        "answers, Prometheus cannot reach it: see the error in Prometheus under Status, Targets. Often the cause is a "
        "firewall, or `--web.listen-address`, which is 127.0.0.1 by default. Meanwhile, `uwsgi-headroom check` on the "
        "host shows the state of each server.",
        dashboard=FLEET_DASHBOARD,
    )


def _sampler_gaps(t: Thresholds) -> Alert:
    """A ticket for a server that is sampled only part of the time. Emperors and routers are not sampled. Time for which
    the server was down does not count, because UwsgiDown covers it; one or two failed scrapes do not reset the alert.
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
