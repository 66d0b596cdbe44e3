"""Finds out whether a full reload would end a uWSGI, whatever is added to its configuration.

A reload executes uWSGI's program again: as the user that the master has now, with the sockets of the application, and
with nothing else that the first start opened. So a uWSGI that root started may be unable to start again: as its own
user it cannot bind port 80 for `http`, read a key for `https`, or open the log of `log-reopen` or the file of `cache2`
(tried with 2.0.31: with `chown-socket`, the first start opens them as root, and a reload ends uWSGI). Where the master
has given up root, only options are trusted whose source says that they survive; with any other, a restart costs a
second of service, and a reload may cost all of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from uwsgi_headroom.discover.find import user_name
from uwsgi_headroom.discover.launch import Launch
from uwsgi_headroom.discover.trial import has_access

_KEEPS_NOTHING_OPEN = re.compile(
    r"socket|uwsgi-socket|http-socket|chmod-socket|chown-socket|listen|socket-timeout|reuse-port|so-keepalive|so-send-timeout"
    r"|master|processes|workers|threads|enable-threads|threads-stacksize|thread-stacksize|cheap|cheaper.*|idle"
    r"|async|gevent|ugreen|asyncio|offload-threads|thunder-lock|cpu-affinity"
    r"|harakiri.*|max-requests.*|min-worker-lifetime|max-worker-lifetime.*|reload-on-.*|evil-reload-on-.*"
    r"|worker-reload-mercy|reload-mercy|die-on-term|no-orphans|vacuum|strict|need-app|lazy|lazy-apps"
    r"|single-interpreter|buffer-size|post-buffering.*|limit-post|memory-report|stats|stats-server|stats-http|stats-min|stats-minified|stats-no-cores|stats-no-metrics"
    r"|module|wsgi|wsgi-file|callable|mount|manage-script-name|chdir|home|virtualenv|venv|pyhome|pythonpath"
    r"|python-path|py-autoreload|env|plugin|plugins|plugins-dir|autoload|uid|gid|umask|add-gid|procname.*|auto-procname"
    r"|pidfile|pidfile2|safe-pidfile|safe-pidfile2|logto|daemonize|disable-logging|log-(date|micros|slow|[45]xx|big|zero"
    r"|sendfile|x-forwarded-for|format|prefix)|logformat|ignore-sigpipe|ignore-write-errors|disable-write-exception"
    r"|static-.*|check-static|touch-.*|no-default-app|py-call-osafterfork|no-site|optimize|vhost|route-.*"
    r"|if-dir|endif|end-if|deb-confname|deb-confnamespace|-[sptwHMTiPRzldm]"
)
"""Options with which a uWSGI starts again as another user: they open nothing, or nothing again at a reload."""

_OPENS_THE_LOG_AGAIN = ("daemonize", "daemonize2", "logto")
"""In a vassal, or with `log-reopen`, which is not among the options above."""


def find_harm(launch: Launch) -> str:
    """Why a full reload may end a uWSGI; empty if it does not. Needs root, or to be its user."""
    return next(_list_reasons(launch), "")


def _list_reasons(launch: Launch) -> Iterator[str]:
    program = launch.program
    if os.path.basename(program).startswith(("python", "pypy")):  # the wheel pyuwsgi; tried: it finds no own module
        yield f"a reload would start {program} without the virtual environment, and so end it"
    if launch.is_program_gone:
        yield f"a reload would start {program}, which is gone, and so end it"
    if "exit-on-reload" in launch.option_names:
        yield "it has `exit-on-reload`, which ends it"
    if launch.file and not has_access(launch.file, launch.ids, os.R_OK):
        # It read the file as root, and reads it again as its own user.
        yield f"user {user_name(launch.ids.uid)} may not read {launch.file}, which would end it"
    doubtful = list(dict.fromkeys(name for name in launch.option_names if not _is_trusted(name, launch)))
    if doubtful and _has_given_up_root(launch):
        yield (
            f"root started it, and as user {user_name(launch.ids.uid)} it may be unable to start again with "
            f"{', '.join(f'`{name}`' for name in doubtful[:3])}{' and more' if doubtful[3:] else ''}"
        )


def _has_given_up_root(launch: Launch) -> bool:
    if launch.ids.uid == 0:
        return False
    is_of_root = launch.unit is not None and not launch.unit.user
    return bool({"uid", "gid"} & {*launch.option_names}) or is_of_root or launch.is_debian


def _is_trusted(name: str, launch: Launch) -> bool:
    if launch.master.emperor and name in _OPENS_THE_LOG_AGAIN:
        return False
    # `base = /srv` in a file makes `%(base)` stand for /srv.
    return _KEEPS_NOTHING_OPEN.fullmatch(name) is not None or f"%({name})" in launch.text
