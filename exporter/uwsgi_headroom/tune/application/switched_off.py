"""Decides which options of an ini file `tune` leaves out: those that could touch something beside the measured server.

Everything else is kept: what is not known here may decide how fast the application is. The names are those of uWSGI
2.0 (core/uwsgi.c and its plugins).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_GROUPS: Mapping[str, str] = {
    "sockets and routers": r"""
        socket|uwsgi-socket|suwsgi-socket|http-socket|https-socket|ssl-socket|fastcgi-socket|scgi-socket|raw-socket
        fastcgi-nph-socket|scgi-nph-socket|puwsgi-socket|undeferred-shared-socket|shared-socket|zeromq|zmq|udp
        zeromq-socket|zmq-socket|http-socket-modifier\d|https-socket-modifier\d|socket-protocol|chmod-socket|chmod
        chown-socket|http|https|https2|http-.+|https-.+|fastrouter.*|rawrouter.*|sslrouter.*|forkptyrouter.*
        forkpty-router.*|tuntap.*|subscri.+|ss-sign|zerg.*|cap|reuse-port|freebind|so-send-timeout|unsubscribe-.+
        abstract-socket|http11-socket|httprouter|protocol|enable-proxy-protocol|sni.*|notify-socket|shutdown-sockets
        force-gateway|(fastcgi|scgi|raw)-modifier\d|resubscribe.*|start-unsubscribed|corerouter.*|server-subscri.+
        """,
    "statistics for others": r"""
        stats|stats-server|stats-http|stats-push|stats-pusher.*|stats-no-cores|stats-no-metrics|stats-minified
        carbon.*|rrdtool.*|zabbix.*|snmp.*|metrics?-dir.*|metric-alarm|stats-min|nagios|stats-pushers-.+|mongodb-.+
        push-stats.*
        """,
    "crons": r"(unique-|legion-)?cron2?|unique-legion-cron|unique-cron-legion|cron-.+|(rb|signal-|signal-rb)?timer",
    "daemons": r".*attach-.*daemon2?|attach-daemon2?|daemons-honour-stdin|fastrouter-daemon",
    "mules": r"mule|mules|farm|mule-.+|farm-.+",
    "spoolers": r"spooler|spooler-.+",
    "emperor": r"emperor|emperor-.+|vassal.*|early-emperor|heartbeat|imperial-.+|is-vassal|broodlord",
    "clusters": r"legion.*|lord-.+|cluster.*|multicast.*|subscriptions-.+|cache-udp.*|cache-sync.*|ha-.+",
    "log files and log servers": r"""
        logto2?|logger|req-logger|logger-req|log-socket|log-syslog|syslog|rsyslog|log-maxsize|log-backupname
        log-reopen|log-truncate|log-route|log-req-route|log-encoder|log-req-encoder|logfile-.+|worker-logger.*
        worker-log-.+|log-drain|log-master-stream|log-master-req-stream|logger-list
        """,
    "background and PID files": r"daemonize2?|pidfile2?|safe-pidfile2?|auto-procname-file|master-fifo|flock.*",
    "stored caches and queues": r"""
        cache-store.*|queue-store.*|sharedarea|locks-dir|ftok|persistent-ipcsem|upload-progress|file-write
        """,
    "reloads": r"""
        touch-.+|propagate-touch|fs-(brutal-)?(signal|reload).*|py-auto-?reload.*|python-auto-?reload.*
        brutal-reload-.+
        """,
    "hooks and commands": r"""
        hook-.+|exec-.+|call-.+|as-user-.+|privileged-binary-patch.*|unprivileged-binary-patch.*|binary-path|alarm.*
        worker-exec2?|worker-mount|eval|pyrun|.*-alarm|not-alarm-log|not-log-alarm|on-exit|post-.+-hook|mount-.+
        umount-.+|re-?fork.*|reload-os-env|command-mode|fallback-config|fork-server.*|fork-socket
        """,
    "users and isolation": r"""
        uid|gid|immediate-uid|immediate-gid|add-gid|emperor-gid|no-initgroups|master-as-root|chroot|pivot-root|pivot
        unshare.*|cgroup.*|setns.*|ns-.+|ns|ns2|namespace.*|jail.*|drop-after-.+|wait-for-.+|wait-iface.*
        wait-interface.*|lxc.*|cap-.+|ksm-.+
        """,
    "starting on demand and ending": r"""
        cheap|idle|die-on-idle|exit-on-reload|no-server|pause|exit|test|stop|reload|suspend|resume|signal
        connect-and-read|extract|ping|ping-timeout|exit-after.*|auto-snapshot.*
        """,
    "shells": r"py-?shell.*|python-shell.*|shell|shell-.+|lua-shell|ipython.*|honour-stdin|console",
}
"""Patterns of whole names, by what they are for."""

GROUPS = tuple(_GROUPS)

_PATTERNS = {group: re.compile("|".join(names.split())) for group, names in _GROUPS.items()}

_CACHE_OUTSIDE = re.compile(r",?\b(?:store|store_sync|store_delete|sync|nodes|node|udp|udp_servers)=[^,]*")


def find_group(option: str) -> str | None:
    """What an option that is left out is for; None if it is kept."""
    # A name that a placeholder completes could be any.
    if re.search(r"%|\$\(|@\(", option):
        return "options whose name is a placeholder"
    return next((group for group, pattern in _PATTERNS.items() if pattern.fullmatch(option)), None)


def rewrite_value(option: str, value: str) -> str:
    """The value that is kept: a cache without its file and without other servers."""
    return _CACHE_OUTSIDE.sub("", value).strip(",") if option == "cache2" else value


def describe(options: Iterable[str]) -> list[str]:
    """The options that were left out, by group: `crons (cron, cron2)`, in a fixed order."""
    found: dict[str, list[str]] = {}
    for option in dict.fromkeys(options):
        found.setdefault(find_group(option) or "caches beyond this server", []).append(option)
    order = list(_GROUPS)
    groups = sorted(found, key=lambda group: order.index(group) if group in order else len(order))
    return [f"{group} ({', '.join(found[group])})" for group in groups]
