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
from pathlib import Path

from uwsgi_headroom.discover.launch import Launch, user_name
from uwsgi_headroom.discover.trial import has_access
from uwsgi_headroom.record import DISTRIBUTIONS_FILES

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
    r"|if-dir|endif|end-if|deb-confname|deb-confnamespace"
)
"""Options with which a uWSGI starts again as another user: they open nothing, or nothing again at a reload."""

_HOOK_THAT_MAY_FAIL = re.compile(r"[ \t]*hook-[\w-]+[ \t]*[=:][ \t]*safeexec:")
"""A hook whose command may fail: uWSGI goes on. The lines that `discover` prints have one."""

_OPENS_THE_LOG_AGAIN = ("daemonize", "daemonize2", "logto")
"""In a vassal, or with `log-reopen`, which is not among the options above."""

_SET_BY_UWSGI = (b"UWSGI_ORIGINAL_PROC_NAME=", b"UWSGI_RELOADS=", b"UWSGI_EMPEROR_", b"UWSGI_VASSAL")

_LETTERS = frozenset("sptwHMTiPRzldm")
"""Options of one letter for those above."""


def find_harm(launch: Launch) -> str:
    """Why a full reload may end a uWSGI; empty if it does not. Needs root, or to be its user."""
    try:
        return next(_list_reasons(launch), "")
    except OSError as error:
        return f"how it was started is not visible ({error.strerror or error})"


def _list_reasons(launch: Launch) -> Iterator[str]:
    program = Path(os.readlink(f"/proc/{launch.master.pid}/exe"))
    if program.name.startswith(("python", "pypy")):  # the wheel pyuwsgi; tried: it no longer finds its own module
        yield f"a reload would start {program} without the virtual environment, and so end it"
    if not Path(f"/proc/{launch.master.pid}/root{str(program).removesuffix(' (deleted)')}").exists():
        yield f"a reload would start {program}, which is gone, and so end it"
    names = list(_list_options(launch))
    if "exit-on-reload" in names:
        yield "it has `exit-on-reload`, which ends it"
    if launch.file and not has_access(launch.file, launch.ids, os.R_OK):
        # It read the file as root, and reads it again as its own user.
        yield f"user {user_name(launch.ids.uid)} may not read {launch.file}, which would end it"
    doubtful = list(dict.fromkeys(name for name in names if not _is_trusted(name, launch)))
    if doubtful and _has_given_up_root(launch, names):
        yield (
            f"root started it, and as user {user_name(launch.ids.uid)} it may be unable to start again with "
            f"{', '.join(f'`{name}`' for name in doubtful[:3])}{' and more' if doubtful[3:] else ''}"
        )


def _has_given_up_root(launch: Launch, names: list[str]) -> bool:
    if launch.ids.uid == 0:
        return False
    return bool({"uid", "gid"} & {*names}) or (launch.unit is not None and not launch.unit.user) or launch.is_debian


def _is_trusted(name: str, launch: Launch) -> bool:
    if launch.master.emperor and name in _OPENS_THE_LOG_AGAIN:
        return False
    # `base = /srv` in a file makes `%(base)` stand for /srv.
    return _KEEPS_NOTHING_OPEN.fullmatch(name) is not None or f"%({name})" in launch.text


def _list_options(launch: Launch) -> Iterator[str]:
    """List the names of the options of the command line, the environment and the file, as far as they are visible.
    Of a file that was not read, `ini` or its like is listed; that of a distribution is known to be harmless."""
    files = Path(f"/proc/{launch.master.pid}")
    own = {str(launch.file), launch.file.name} if launch.file else set()
    words = [os.fsdecode(word) for word in (files / "cmdline").read_bytes().split(b"\0")[1:]]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, _, value = word.removeprefix("--").partition("=")
        if word.startswith("--"):
            if name not in ("ini", "yaml", "yml") or not _is_read(value or following, own):
                yield name
        elif re.fullmatch(r"-[A-Za-z]", word) and word[1] not in _LETTERS:
            yield word
    for variable in (files / "environ").read_bytes().split(b"\0"):
        if variable.startswith(b"UWSGI_") and b"=" in variable and not variable.startswith(_SET_BY_UWSGI):
            yield os.fsdecode(variable[6 : variable.index(b"=")]).lower().replace("_", "-")
    separator = "=" if launch.file and launch.file.suffix == ".ini" else ":"
    for line in launch.text.splitlines():
        name = line.partition(separator)[0].strip()
        if name and name[0] not in "#;[" and line.strip() != "uwsgi:" and not _HOOK_THAT_MAY_FAIL.match(line):
            yield name


def _is_read(name: str, own: set[str]) -> bool:
    return name.startswith(DISTRIBUTIONS_FILES) or name in own or os.path.basename(name) in own
