"""Finds the steps that turn on the stats of one uWSGI without harm, and tries them before it proposes them.

What can go wrong: a stats address that cannot be bound ends uWSGI at its next reload, and `chmod-socket` changes the
mode of the application's own socket too. So the socket goes into a directory that belongs to uWSGI's user and that
exists after a reload, a restart and a boot; it gets its mode from a hook; and `if-dir` leaves uWSGI without stats, but
serving, should the directory be missing one day. docs/turn-on-stats.md has the measurements behind each line.

A full reload executes uWSGI's program again: as the user that the master has now, with the sockets of the application,
and with nothing else that the first start opened. So a uWSGI that root started may be unable to start again: as its own
user it cannot bind port 80 for `http`, read a key for `https`, or open the log of `log-reopen` or the file of `cache2`
(tried with 2.0.31: with `chown-socket`, the first start opens them as root, and a reload ends uWSGI). Where the master
has given up root, only options are trusted whose source says that they survive; with any other, a restart costs a
second of service, and a reload may cost all of it.

Where the trial cannot run or fails, there are no lines, only the reason. The administrator follows the steps as root,
so they name no group that uWSGI's user is not in, and no directory above which another user may write.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import re
import shlex
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.discover.find import user_name
from uwsgi_headroom.discover.launch import SYSTEMD, Launch, list_runtime_directories, show_properties
from uwsgi_headroom.discover.trial import (
    LONGEST_PATH,
    MODE,
    TrialError,
    has_access,
    is_roots,
    try_directory,
)
from uwsgi_headroom.kernel.as_user import Ids, ask_as
from uwsgi_headroom.source import Unix

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
    is_of_root = (launch.unit is not None and not launch.unit.user) or launch.is_debian
    if doubtful and launch.ids.uid != 0 and (is_of_root or {"uid", "gid"} & {*launch.option_names}):
        names = ", ".join(f"`{name}`" for name in doubtful[:3]) + " and more" * bool(doubtful[3:])
        user = user_name(launch.ids.uid)
        yield f"root started it, and as user {user} it may be unable to start again with {names}"


def _is_trusted(name: str, launch: Launch) -> bool:
    if launch.master.emperor and name in _OPENS_THE_LOG_AGAIN:
        return False
    # `base = /srv` in a file makes `%(base)` stand for /srv.
    return _KEEPS_NOTHING_OPEN.fullmatch(name) is not None or f"%({name})" in launch.text


RUNTIME = Path("/run/uwsgi/app")
"""Debian's package keeps a directory for each application here, and the exporter's package watches them."""

OWN_RUNTIME = Path("/run/uwsgi-stats")
"""Where the other one is not root's, or is a unit's, and goes when that unit stops; or has the application's socket."""

LASTING = Path("/var/lib/uwsgi-stats")
"""On a machine without systemd, which would make a directory below /run at each boot."""

TMPFILES = Path("/etc/tmpfiles.d")

SOCKET = "stats"
"""The file name of a stats socket in the directory of its uWSGI."""

EXPORTERS_UNIT = "uwsgi-headroom.service"

_GIVE_A_GROUP = "Give uWSGI's unit a group that exists (`Group=`) and restart it, then run `discover` again"

_NOT_MINE = (
    "{where} has `stats = {own}` already, and uWSGI did not take it yet. If it cannot bind that, a reload ends it, and "
    "`discover` tries only directories of its own choice. Remove the line and run `discover` again, or try it by hand "
    "(docs/turn-on-stats.md, By hand)"
)

_BY_HAND = "docs/turn-on-stats.md says how to do it by hand"

_PLAIN_PATH = re.compile(r"/[\w./@+-]+", re.ASCII)
"""Paths in which uWSGI's configuration and a shell find nothing special."""

_SECTION = re.compile(r"^[ \t]*\[([^\]\n]*)\]", re.MULTILINE)
_STATS_LINE = re.compile(r"^[ \t]*stats(?:-server)?[ \t]*[=:](.*)$", re.MULTILINE)
_TMPFILES_LINE = "d {directory} 2750 {owner} {group} -"


class ToDo(Struct, frozen=True):
    """One thing to do. lines: to be pasted, into the file that the heading names or into a shell."""

    heading: str
    lines: Sequence[str] = ()


class Scraper(Struct, frozen=True):
    """The user that runs the exporter. unit: whether it is the systemd unit, whose groups a drop-in sets; else its
    groups are those of the user."""

    name: str
    ids: Ids
    unit: bool = False


class Plan(Struct, frozen=True):
    """The steps for one uWSGI, and what was tried; or why there are none."""

    steps: Sequence[ToDo] = ()
    tried: str = ""
    warnings: Sequence[str] = ()
    why_none: str = ""


class _Place(Struct, frozen=True):
    """A directory for the socket. make: the step that makes it, None if it exists. exists: for how long."""

    directory: Path
    make: ToDo | None
    exists: str


def find_reader(name: str | None) -> Scraper:
    """Find the user that runs the exporter: `name`, else the exporter's systemd unit, else the user behind sudo, else
    this one, which may have no name. Raises KeyError if there is no user `name`."""
    if name is None and (unit := _read_exporters_unit()):
        return unit
    try:
        known = pwd.getpwnam(name or os.environ.get("SUDO_USER") or user_name(os.geteuid()))
    except KeyError:
        if name:
            raise
        return Scraper(user_name(os.geteuid()), Ids(os.geteuid(), os.getegid(), tuple(os.getgroups())))
    groups = os.getgrouplist(known.pw_name, known.pw_gid)
    return Scraper(known.pw_name, Ids(known.pw_uid, known.pw_gid, tuple(groups)))


def plan(launch: Launch, name: str, reader: Scraper, alike: int) -> Plan:
    """Find the steps for one uWSGI. name: unique on this machine; alike: how many uWSGIs use its configuration file."""
    launch = replace(launch, why_no_reload=launch.why_no_reload or find_harm(launch))
    own = launch.options.stats or _find_stats_line(launch.text)
    places = _list_places(launch, name, reader)
    mine = [place for place in places if own in ("", str(place.directory / SOCKET))]
    if reason := _why_not(launch, name, alike):
        return Plan(why_none=reason)
    if not mine:
        return Plan(why_none=_NOT_MINE.format(where=launch.file or "its command line", own=own))
    reasons = []
    for place in mine:
        try:
            may_read = _try_place(launch, place, reader, is_there=bool(own))
        except (OSError, TrialError) as error:
            reasons.append(f"{place.directory}: {error}")
            continue
        return _make_plan(launch, name, reader, place, may_read, is_there=bool(own))
    return Plan(why_none=f"no directory passed the trial: {'; '.join(reasons)}")


def _why_not(launch: Launch, name: str, alike: int) -> str:
    """Why no lines can be proposed, before any trial; empty if they can."""
    file = launch.file
    reasons = {
        "it runs in a container, or with mounts of its own (such as `PrivateTmp=` or `ProtectSystem=` of its unit), "
        "which a trial from here does not see. In a container, run `uwsgi-headroom discover` inside, or see "
        f"deploy/container/README.md. Give a unit `RuntimeDirectory=uwsgi-stats-{name}`, add the lines for "
        f"/run/uwsgi-stats-{name} (docs/turn-on-stats.md, By hand), and restart it": launch.has_own_files,
        f"its configuration file is not known: {launch.why_no_file}. {_BY_HAND}": launch.why_no_file,
        f"lines are proposed for ini files only, and it uses {file}. {_BY_HAND}": file and file.suffix != ".ini",
        f"{alike} uWSGIs use {file}, under this name or another: with one `stats` line, each would take the socket of "
        "the one before": alike > 1,
        f"its Emperor reloads it as soon as its file changes, and {launch.why_no_reload}": (
            launch.why_no_reload and launch.master.emperor
        ),
        f"the trial does not know what this permits: {launch.confined}. {_BY_HAND}": launch.confined,
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _find_stats_line(text: str) -> str:
    """The value of the last option `stats` in a file, even within a condition; empty if there is none. If the file has
    sections `uwsgi`, those of other sections do not count."""
    _, *sections = _SECTION.split(text)
    own = [content for name, content in zip(sections[::2], sections[1::2], strict=True) if name == "uwsgi"]
    return "".join(_STATS_LINE.findall("".join(own) or text)[-1:]).strip()


def plan_reader(launch: Launch, reader: Scraper) -> Plan:
    """The steps for a uWSGI whose stats this user can read and the exporter's user cannot; none if both can."""
    address, ids = launch.master.address, launch.ids
    if os.geteuid() != 0 or not isinstance(address, Unix) or address.path.startswith("@"):
        return Plan()
    path = address.path
    found = re.fullmatch(r"(\d+) (\d+)", ask_as(ids, lambda: "{0.st_mode} {0.st_gid}".format(os.stat(path))))
    if not found or has_access(Path(path), reader.ids, os.W_OK):
        return Plan()  # also in another mount namespace: the exporter has to say why it cannot read it
    mode, gid = map(int, found.groups())
    tried = f"{reader.name} cannot connect to {path}"
    if mode & 0o060 != 0o060:
        return Plan(tried=f"{tried}: run `namei -l {shlex.quote(path)}` to see which directory or mode forbids it")
    if why := _why_not_in_group(gid, ids):
        return Plan(tried=f"{tried}: {why}")
    return Plan([_join_group(gid, reader)], tried)


def _list_places(launch: Launch, name: str, reader: Scraper) -> Sequence[_Place]:
    """List the directories in which the socket could be, best first."""
    uid = launch.ids.uid
    owner, group = _plain(user_name(uid), uid), _group_name(_choose_group(launch, reader))
    if os.geteuid() != 0:
        directory = Path.home() / ".uwsgi" / name
        return [_place(directory, [f"install -d -m 2750 {directory}"], "the directory is in your home directory")]
    if launch.is_debian and (RUNTIME / name).is_dir():
        return [_Place(RUNTIME / name, None, "Debian's init script makes the directory at each start")]
    if SYSTEMD.is_dir() and shutil.which("systemd-tmpfiles"):
        names = (RUNTIME / name, RUNTIME / f"{name}-stats", OWN_RUNTIME / name)
        # Not within a unit's `RuntimeDirectory`, which systemd removes when that unit stops.
        removed = {Path("/run", name) for name in list_runtime_directories()}
        lasting = (directory for directory in names if removed.isdisjoint(directory.parents))
        made = [_place_of_tmpfile(directory, owner, group) for directory in lasting]
        return [place for place in made if place]
    directory = LASTING / name
    return [_place(directory, [f"install -d -m 2750 -o {owner} -g {group} {directory}"], "the directory is on a disk")]


def _place(directory: Path, commands: Sequence[str], exists: str) -> _Place:
    make = None if directory.is_dir() else ToDo("Make a directory for the stats socket:", commands)
    return _Place(directory, make, exists)


def _place_of_tmpfile(directory: Path, owner: str, group: str) -> _Place | None:
    """A directory that systemd-tmpfiles makes at each boot. None for one that somebody else made: it may hold the
    application's socket, to which a web server must find its way."""
    kept = TMPFILES / f"uwsgi-{directory.parent.name.removeprefix('uwsgi-')}-{directory.name}.conf"
    line = _TMPFILES_LINE.format(directory=directory, owner=owner, group=group)
    ours = _TMPFILES_LINE.format(directory=re.escape(str(directory)), owner=re.escape(owner), group=r"\S+")
    text = ""
    if kept.is_file():
        text = kept.read_text(errors="replace").removesuffix("\n")
    if (text or directory.exists()) and not re.fullmatch(ours, text):
        return None
    commands = [f"echo '{line}' > {kept}", f"systemd-tmpfiles --create {kept.name}"]
    make = ToDo("Make a directory for the stats socket, now and at each boot:", commands)
    is_made = directory.is_dir() and line == text
    return _Place(directory, None if is_made else make, f"systemd makes the directory at each boot ({kept})")


def _choose_group(launch: Launch, reader: Scraper) -> int:
    """The group of the directory, which the socket inherits: the exporter's own, if no other user is in it; else
    uWSGI's."""
    if reader.unit or launch.ids.gid in (reader.ids.gid, *reader.ids.groups) or reader.ids.uid == 0:
        return launch.ids.gid
    try:
        group = grp.getgrgid(reader.ids.gid)
    except KeyError:
        return launch.ids.gid
    is_private = group.gr_name == reader.name and not set(group.gr_mem) - {reader.name}
    return reader.ids.gid if is_private else launch.ids.gid


def _try_place(launch: Launch, place: _Place, reader: Scraper, *, is_there: bool) -> bool:
    """Try a directory, or judge the one above it if it does not exist yet. is_there: whether the configuration names it
    already. Returns whether the exporter can read a socket in it. Raises OSError and TrialError."""
    directory, ids = place.directory, launch.ids
    path = directory / SOCKET
    if not _PLAIN_PATH.fullmatch(str(path)):
        raise TrialError("it has characters that a configuration or a shell would take as special")
    if len(str(path)) > LONGEST_PATH:
        raise TrialError(f"{path} is longer than {LONGEST_PATH} bytes, more than uWSGI takes")
    if place.make and os.geteuid() == 0 and not is_roots(directory.parent):
        raise TrialError("others than root may write above it")
    will_read = reader.ids.uid == 0 or _choose_group(launch, reader) in (reader.ids.gid, *reader.ids.groups)
    if not directory.is_dir():
        parent = next(parent for parent in directory.parents if parent.is_dir())
        if not all(has_access(parent, user, os.X_OK) for user in (ids, reader.ids)):
            raise TrialError(f"user {user_name(ids.uid)} or {reader.name} may not enter {parent}")
        return will_read
    if directory.stat().st_mode & stat.S_IWOTH:
        raise TrialError("every local user may write in it, and put something there that ends uWSGI at its next start")
    if not (launch.is_debian or is_there) and ask_as(ids, lambda: "taken" if os.path.lexists(path) else ""):
        # uWSGI deletes a file, and a socket may be of another uWSGI of this name, which does not run now.
        raise TrialError(f"{path} exists, and may be of another uWSGI. If it is of none, `rm {path}`")
    try:
        try_directory(ids, directory, SOCKET, reader.ids)
    except TrialError as error:
        if not error.reads:
            raise
        return place.make is not None and will_read
    return True


def _make_plan(launch: Launch, name: str, reader: Scraper, place: _Place, may_read: bool, *, is_there: bool) -> Plan:
    steps = [step for step in (place.make, None if is_there else _configure(launch, place.directory)) if step]
    if not may_read:
        if why := _why_not_in_group(launch.ids.gid, launch.ids):
            return Plan(why_none=f"{reader.name} cannot read a socket in {place.directory}: {why}")
        steps.append(_join_group(launch.ids.gid, reader))
    steps += filter(None, [_reload(launch, is_saved_now=not is_there)])
    steps.append(
        ToDo(
            "See that your application still answers, then run `discover` again: it must list the stats server of "
            f"{name}. If uWSGI is gone, remove the lines and start it; its log has the reason."
        )
    )
    tried = (
        f"user {user_name(launch.ids.uid)} can bind a socket in {place.directory}"
        f"{' once it is made' * bool(place.make)}, and {reader.name} {'can' if may_read else 'cannot yet'} connect "
        f"to that socket; {place.exists}"
    )
    warnings = {
        f"{launch.file} was changed after uWSGI read it, and it will read those changes too": launch.options.changed,
        "this uWSGI runs as root, and anyone who controls its application has root's rights": launch.ids.uid == 0,
    }
    return Plan(steps, tried, [warning for warning, applies in warnings.items() if applies])


def list_options(directory: Path) -> list[tuple[str, str]]:
    """List the options of uWSGI that serve its stats in this directory: name and value, in this order."""
    path = directory / SOCKET
    return [
        ("if-dir", str(directory)),
        ("stats", str(path)),
        ("hook-master-start", f"safeexec:chmod {MODE:o} {path}"),
        ("endif", ""),
    ]


def _configure(launch: Launch, directory: Path) -> ToDo:
    # Within a condition or a loop, `if-dir` ends uWSGI. `endif` closes either, and does nothing otherwise (tried).
    options = [("endif", ""), *list_options(directory)]
    if launch.file is None:
        words = " ".join(shlex.join(filter(None, (f"--{key}", value))) for key, value in options)
        unit = launch.own_unit
        where = f" (ExecStart= of {unit.name}: systemctl edit --full {shlex.quote(unit.name)})" if unit else ""
        return ToDo(f"Add these options to the end of the command line that starts uWSGI{where}:", [words])
    is_reloaded = launch.master.emperor and not launch.file.is_symlink()
    at_once = "; its Emperor reloads it as soon as the file changes" * bool(is_reloaded)
    begin = [""] * (not launch.text.endswith("\n"))  # its last line has no line break
    section = ["[uwsgi]"] * (_SECTION.findall(launch.text)[-1:] != ["uwsgi"])
    lines = [f"{key} = {value}".rstrip() for key, value in options]
    return ToDo(f"Add at the end of {launch.file}{at_once}:", [*begin, *section, *lines])


def _why_not_in_group(gid: int, ids: Ids) -> str:
    """Why nobody is put into a group; empty if the exporter may be. uWSGI's user must be in it, or it would lend rights
    that it has not; and it is not root's."""
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:
        return f"its group {gid} has no name here, so no other user can be put into it. {_GIVE_A_GROUP}"
    own = {ids.gid}
    with contextlib.suppress(KeyError):
        user = pwd.getpwuid(ids.uid)
        own.update(os.getgrouplist(user.pw_name, user.pw_gid))
    if gid in own - {0}:
        return ""
    return f"its group {group} is root's, or none of uWSGI's user. {_GIVE_A_GROUP}"


def _join_group(gid: int, reader: Scraper) -> ToDo:
    group = _group_name(gid)
    if reader.unit:
        drop_in = f"/etc/systemd/system/{EXPORTERS_UNIT}.d"
        return ToDo(
            f"Put the exporter into the group {group}, which may read the socket:",
            [
                f"mkdir -p {drop_in}",
                f"printf '[Service]\\nSupplementaryGroups={group}\\n' > {drop_in}/group-{group}.conf",
                "systemctl daemon-reload",
                f"systemctl restart {EXPORTERS_UNIT}",
            ],
        )
    return ToDo(
        f"Put the exporter's user {reader.name} into the group {group}, which may read the socket. Then start the "
        "exporter in a new session:",
        [f"usermod --append --groups {group} {shlex.quote(reader.name)}"],
    )


def _reload(launch: Launch, *, is_saved_now: bool) -> ToDo | None:
    """The step that makes uWSGI read its configuration again; None if an Emperor does so because its file was saved."""
    unit = launch.own_unit
    if launch.master.emperor and launch.file:
        if is_saved_now and not launch.file.is_symlink():
            return None
        # It looks at the link, not at the file.
        return ToDo("Have the Emperor reload it:", [f"touch -h {shlex.quote(str(launch.file))}"])
    if launch.file is None or launch.why_no_reload:
        why = launch.why_no_reload or "a reload keeps the old command line"
        commands = [f"systemctl restart {shlex.quote(unit.name)}"] if unit else []
        end = ":" if unit else "."
        return ToDo(f"Stop and start uWSGI when that suits you; do not reload it: {why}{end}", commands)
    command = f"kill -HUP {launch.master.pid}"
    if unit and unit.can_reload and not launch.is_debian:  # Debian's unit, and so `service`, reloads all applications
        command = f"systemctl reload {shlex.quote(unit.name)}"
    return ToDo("Reload uWSGI:", [command])


def _read_exporters_unit() -> Scraper | None:
    shown = show_properties(EXPORTERS_UNIT, "LoadState", "User", "DynamicUser", "SupplementaryGroups")
    if shown.get("LoadState") != "loaded":
        return None
    groups = []
    for group in shown.get("SupplementaryGroups", "").split():
        with contextlib.suppress(KeyError):
            groups.append(grp.getgrnam(group).gr_gid)
    uid = gid = 65534  # nobody's, for a dynamic user that does not run now
    with contextlib.suppress(KeyError):
        user = pwd.getpwnam(shown.get("User") or "uwsgi-headroom")
        uid, gid = user.pw_uid, user.pw_gid
    return Scraper(EXPORTERS_UNIT, Ids(uid, gid, tuple(groups)), unit=True)


def _group_name(gid: int) -> str:
    try:
        return _plain(grp.getgrgid(gid).gr_name, gid)
    except KeyError:
        return str(gid)


def _plain(name: str, number: int) -> str:
    """A name that a shell and systemd take as it is, else its number: Active Directory has spaces and backslashes."""
    return name if re.fullmatch(r"[\w.@-]+", name, re.ASCII) else str(number)
