"""Alerts about a server that cannot be read, an exporter that cannot be scraped, and missing samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import (
    CHECK,
    CLOCKS_DIFFER,
    DURATION,
    FLEET_DASHBOARD,
    INSTANCE,
    SERVER,
    SERVER_DASHBOARD,
    SHELL_NAME,
    WHOLE,
    answer,
    asked,
    percent,
    value,
)


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `availability.yaml`."""
    return [
        Group(
            "uwsgi-headroom availability",
            [_down(t), *_servers_missing(t), _vassal_throttled(t), _exporter_down(t), _sampler_gaps(t)],
        )
    ]


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
        summary=f"uWSGI {SERVER} on {INSTANCE} {{{{ if lt $value 0.0 }}}}is down: the exporter has not found it "
        "again after a restart of the exporter{{ else if eq $value 0.0 }}is down: its stats server does not answer"
        "{{ else }}keeps restarting: "
        f"it was up for only {percent()} of the last {t.down_flapping_range}{{{{ end }}}}",
        acts=(
            "Open a page of your site to see whether uWSGI still serves requests. If the page does not load, restart "
            "uWSGI: `systemctl restart UNIT`.",
            "If uWSGI does not start, look for the reason at the end of its log: `journalctl -u UNIT -n 50`.",
            f"If you removed this uWSGI on purpose, let the exporter forget it: `uwsgi-headroom retire {SHELL_NAME}`.",
        ),
        evidence="{{ if lt $value 0.0 }}The exporter has restarted, and has not found this uWSGI again.{{ else }}"
        "Reads of the stats server fail, mostly for this reason: "
        f'{{{{ with {asked(failures)} }}}}{{{{ . | first | label "reason" }}}}'
        "{{ else }}unknown{{ end }}. `refused` or `not_found` means that uWSGI is not running, or has not finished "
        "loading the application. `timeout` means that the master process is blocked or stopped "
        f"({CHECK} says which); the workers may still serve requests. `permission` means that uWSGI runs, but the "
        "exporter is not allowed to connect to its stats server.{{ end }}",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
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
        summary=f"The uWSGI exporter on {INSTANCE} {{{{ if $labels.pattern }}}}leaves {value(WHOLE)} servers "
        "unwatched: more sockets match its pattern than its limit allows{{ else }}watches no server: no socket matches "
        "its patterns{{ end }}",
        acts=(
            "{{ if $labels.pattern }}Remove stale sockets, on which no process listens.{{ else }}Run `uwsgi-headroom "
            "discover` on the host: it lists every uWSGI and its stats server.{{ end }}",
            "{{ if $labels.pattern }}Use a pattern that matches only stats sockets.{{ else }}Correct the exporter's "
            "pattern, or turn on `stats` in uWSGI.{{ end }}",
            "{{ if $labels.pattern }}If all of these sockets are stats servers, raise `sampling.max_servers`, and the "
            "exporter's memory limit.{{ else }}If no uWSGI should run on this host, remove the exporter from it.{{ end "
            "}}",
        ),
        evidence=f"{{{{ if $labels.pattern }}}}Of the sockets that match {{{{ $labels.pattern }}}}, {value(WHOLE)} are "
        "not watched: more sockets match than `sampling.max_servers` allows (400 by default). The exporter "
        "still watches the servers that it read before.{{ else }}uWSGI is not running on this host, or its `stats` "
        "sockets have another path, or the exporter's user is not allowed to see these sockets. Until this is fixed, "
        "no alert about uWSGI on this host can fire.{{ end }}",
        dashboard=FLEET_DASHBOARD,
    )
    page = replace(
        ticket,
        expr=f'sum without (state) ({servers}{{state="expected"}}) - {there} > 0',
        hold=t.down_hold,
        severity="critical",
        summary=f"{value(WHOLE)} uWSGI server{{{{ if gt $value 1.0 }}}}s are{{{{ else }}}} is{{{{ end }}}} missing on "
        f"{INSTANCE}: too few sockets match {{{{ $labels.pattern }}}}",
        acts=(
            "Run `uwsgi-headroom discover` and `systemctl list-units --all 'uwsgi*'` on the host, and start each uWSGI "
            "that is not running.",
            "If a uWSGI does not start, look for the reason at the end of its log: `journalctl -u UNIT -n 50`.",
            "If a server was removed on purpose, lower `expect` in the exporter's configuration, and reload the "
            "exporter.",
        ),
        evidence="The exporter's setting `expect` demands more sockets than match the pattern. The configuration "
        "contains only the number of servers, so the exporter does not know the names of the missing servers.",
    )
    return [ticket, page]


def _vassal_throttled(t: Thresholds) -> Alert:
    """A ticket: the application of the vassal is down, but which it is, and how many users it has, the emperor's stats
    do not say. A vassal whose stats server is watched, too, is down, and that is a page."""
    return Alert(
        alert="UwsgiVassalThrottled",
        expr="uwsgi_emperor_blacklisted_vassals > 0",
        hold=t.vassal_hold,
        severity="warning",
        summary=f"The emperor {SERVER} on {INSTANCE} throttles {value(WHOLE)} vassal"
        "{{ if gt $value 1.0 }}s{{ end }}, which fail{{ if eq $value 1.0 }}s{{ end }} to start",
        acts=(
            "Check the emperor's log for the reason why a vassal exits when it starts: `journalctl -u UNIT --since "
            "-15min`.",
            "Fix the vassal's application or configuration. The emperor then starts the vassal at its next attempt.",
            "If the vassal is no longer needed, remove its configuration.",
        ),
        evidence="A throttled vassal's application is down. The emperor runs "
        f"{answer('uwsgi_emperor_vassals{$self}', WHOLE)} vassals. {CHECK} names the vassals that do not run.",
        dashboard=FLEET_DASHBOARD,
    )


def _exporter_down(t: Thresholds) -> Alert:
    """A ticket for an exporter that cannot be scraped. It cannot show the runbook."""
    return Alert(
        alert="UwsgiExporterDown",
        expr=f"""
up == 0 and ignoring (version, python_version) last_over_time(uwsgi_exporter_build_info[1d])
or
up{{job=~"{t.exporter_job}"}} == 0""",
        hold=t.exporter_down_hold,
        severity="warning",
        summary=f"The uWSGI exporter on {INSTANCE} cannot be scraped: the uWSGI servers that it watches are not "
        "monitored",
        acts=(
            "Check that the host is up. Restart the exporter on this host with `systemctl restart uwsgi-headroom`, and "
            "then read its log: `journalctl -u uwsgi-headroom -n 50`.",
            f"On the host, run `curl -sS http://{INSTANCE}/metrics | head`. If this prints metrics, the exporter runs, "
            "and a firewall probably keeps Prometheus out. If the connection is refused although the exporter runs, it "
            "listens only on 127.0.0.1, which is the default: set `--web.listen-address`.",
            f"Until the exporter runs again, {CHECK} shows the state of each server.",
        ),
        evidence=f"Prometheus has not been able to scrape the exporter for {t.exporter_down_hold} or longer. "
        "Prometheus shows the error on its page `/targets`. The uWSGI servers may be fine, but no alert about them can "
        "fire.",
        dashboard=FLEET_DASHBOARD,
        on_exporter=False,
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
        summary=f"uWSGI {SERVER} on {INSTANCE}: the exporter takes no samples for {percent()} of the time",
        acts=(
            "Check the exporter's log for the reason why reads fail: `journalctl -u uwsgi-headroom -n 50`.",
            "If no reads fail, the exporter gets too little CPU time, or was paused: check the CPU quota of its "
            "cgroup, and how busy the host is.",
            "If the host is too busy, let the exporter sample less often (`--samples-per-second`).",
        ),
        evidence=f"For {percent()} of the last {r}, there are no samples, although uWSGI was up. Figures about busy "
        "threads and waiting requests may miss what happened in these gaps. Request counts, response times and each "
        f"worker's share of the requests are not affected. In the last {r}, {answer(errors, WHOLE)} reads of the "
        "stats server failed; the interval between samples is "
        f"{answer('uwsgi_exporter_sampling_interval_seconds{$self}', DURATION)}.",
        dashboard=SERVER_DASHBOARD,
    )
