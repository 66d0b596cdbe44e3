"""Alerts about a server that cannot be read, an exporter that cannot be scraped, and missing samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import INSTANCE, SERVER, SERVER_DASHBOARD, WHOLE, answer, asked, percent, value

FLEET_DASHBOARD = "/d/uwsgi-headroom-fleet?var-job={{ $labels.job | urlquery }}"

CLOCKS_DIFFER = 60
"""Seconds by which the clock of an exporter's host may be behind that of Prometheus."""


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `availability.yaml`."""
    return [Group("uwsgi-headroom availability", [_down(t), *_servers_missing(t), _exporter_down(t), _sampler_gaps(t)])]


def _down(t: Thresholds) -> Alert:
    """Pages for a server that is down. The exporter remembers the servers that it expects; what an exporter without a
    history file forgets when it restarts, Prometheus remembers. That is for a server that was last seen before the
    exporter started. One that was seen since then is gone because the exporter forgot it, an operator retired it, or
    its Emperor ended it; and an exporter that is down itself knows of no server.
    """
    last_seen = f"max_over_time(timestamp(uwsgi_up)[{t.forgotten_range}:1m])"
    failures = f"topk(1, increase(uwsgi_exporter_read_errors_total{{$self}}[{t.down_flapping_range}]) > 0)"
    return Alert(
        alert="UwsgiDown",
        expr=f"""
avg_over_time(uwsgi_up[{t.down_flapping_range}]) < 0.5 and changes(uwsgi_up[{t.down_flapping_range}]) >= 4
or
uwsgi_up == 0
or
(
  -max_over_time(uwsgi_up[{t.forgotten_range}]) == -1
  unless uwsgi_up
  and {last_seen} < ignoring (server) group_left () (process_start_time_seconds + {CLOCKS_DIFFER})
  unless ignoring (server) uwsgi_exporter_history_written
)""",
        hold=t.down_hold,
        severity="critical",
        summary=f"uWSGI {SERVER} on {INSTANCE} is down, or its stats server does not answer.",
        description="{{ if lt $value 0.0 }}"
        "The exporter restarted, and has not found the server since."
        "{{ else }}"
        "{{ if eq $value 0.0 }}"
        f"The server could not be read for {t.down_hold} or longer"
        "{{ else }}"
        f"The server keeps restarting, and was up for {percent()} of the last {t.down_flapping_range}"
        "{{ end }}"
        f'. Reads fail mostly with: {{{{ with {asked(failures)} }}}}{{{{ . | first | label "reason" }}}}'
        "{{ else }}unknown{{ end }}."
        "{{ end }}\n"
        "First check whether it serves requests: open a page through the web server, and see `systemctl status` and "
        "the end of uWSGI's log. `refused` and `not_found`: it is not running, or has not finished loading the "
        "application; start it, or roll back the last deploy. `timeout`: the master is held up; workers may still "
        "serve. `permission`: it runs, but the exporter is not allowed to connect.\n"
        "A server that a pattern found (`--stats '/run/*.stats'`) and that was up for an hour stays down until it is "
        "back, or until you retire it: `uwsgi-headroom retire NAME`. Any other is forgotten ten minutes after its "
        "socket is gone: then a resolved alert does not mean that the server is back.",
        dashboard=SERVER_DASHBOARD,
    )


def _servers_missing(t: Thresholds) -> Sequence[Alert]:
    """A page if fewer servers are there than the configuration expects, a ticket for an exporter that watches nothing,
    or that leaves servers out. Expected servers whose names are known are in UwsgiDown."""
    servers = "uwsgi_exporter_pattern_servers"
    nothing = f'sum without (pattern, state) ({servers}{{state="found"}}) == 0'
    there = f'sum without (state) ({servers}{{state=~"found|missing"}})'
    ticket = Alert(
        alert="UwsgiServersMissing",
        expr=f"""
(
  {nothing}
  unless count without (server) (uwsgi_up)
)
or
sum without (state) ({servers}{{state="left_out"}}) > 0""",
        hold=t.missing_hold,
        severity="warning",
        summary=f"The uWSGI exporter on {INSTANCE} {{{{ if $labels.pattern }}}}leaves out {value(WHOLE)} servers: "
        "there are too many{{ else }}watches no server: no socket matches its patterns{{ end }}.",
        description="{{ if $labels.pattern }}"
        f"{value(WHOLE)} sockets that match {{{{ $labels.pattern }}}} are not watched, because more than "
        "`sampling.max_servers` (400 unless set) match. Servers that have answered keep their places.\n"
        "Remove sockets that nobody listens on, use a pattern that matches stats sockets only, or raise `max_servers` "
        "and the memory limit of the exporter."
        "{{ else }}"
        "uWSGI is not running on this host, or its `stats` sockets are elsewhere, or the exporter's user may not see "
        "them. No alert about these servers can fire.\n"
        "On the host, run `uwsgi-headroom discover`: it lists every uWSGI and its stats server. If there is none here, "
        "remove the exporter."
        "{{ end }}",
        dashboard=FLEET_DASHBOARD,
    )
    page = replace(
        ticket,
        expr=f'sum without (state) ({servers}{{state="expected"}}) - {there} > 0',
        hold=t.down_hold,
        severity="critical",
        summary=f"uWSGI servers are missing on {INSTANCE}: {value(WHOLE)} of those that match "
        "{{ $labels.pattern }}.",
        description=f"Fewer sockets match than the configuration expects (`expect`), for {t.down_hold} or longer. "
        "Which servers are missing is not known: the configuration has their number, not their names.\n"
        "On the host, run `uwsgi-headroom discover` and `systemctl list-units --all 'uwsgi*'`, and start what is not "
        "running. If a server was removed on purpose, lower `expect` and reload the exporter.",
    )
    return [ticket, page]


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
