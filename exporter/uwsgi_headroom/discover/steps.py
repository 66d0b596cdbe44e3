"""Finds the steps that turn on the stats of one uWSGI without harm, and tries them before it proposes them.

What can go wrong: a stats address that cannot be bound ends uWSGI at its next reload, and `chmod-socket` changes the
mode of the application's own socket too. So the socket goes into a directory that belongs to uWSGI's user and that
exists after a reload, a restart and a boot; it gets its mode from a hook; and `if-dir` leaves uWSGI without stats, but
serving, should the directory be missing one day. docs/turn-on-stats.md has the measurements behind each line.

Where the trial cannot run or fails, there are no lines, only the reason.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import shlex
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from uwsgi_headroom.discover.find import FoundMaster
from uwsgi_headroom.discover.launch import (
    SYSTEMD,
    Ids,
    Launch,
    Unit,
    list_runtime_directories,
    show_properties,
    user_name,
)
from uwsgi_headroom.discover.reload import find_harm
from uwsgi_headroom.discover.trial import (
    LONGEST_PATH,
    MODE,
    TrialError,
    check_path_is_free,
    has_access,
    trial_directory,
    try_directory,
)
from uwsgi_headroom.source import Unix

RUNTIME = Path("/run/uwsgi/app")
"""Debian's package keeps a directory for each application here, and the exporter's package watches them."""

OWN_RUNTIME = Path("/run/uwsgi-stats")
"""Where /run/uwsgi is not root's, or is a unit's, and goes when that unit stops."""

LASTING = Path("/var/lib/uwsgi-stats")
"""On a machine without systemd, which would make a directory below /run at each boot."""

TMPFILES = Path("/etc/tmpfiles.d")

SOCKET = "stats"
"""The file name of a stats socket in the directory of its uWSGI."""

EXPORTERS_UNIT = "uwsgi-headroom.service"

_PLAIN_PATH = re.compile(r"/[\w./@+-]+", re.ASCII)
"""Paths in which uWSGI's configuration and a shell find nothing special."""

_SECTION = re.compile(r"^[ \t]*\[([^\]\n]*)\]", re.MULTILINE)
_STATS_LINE = re.compile(r"^[ \t]*stats(?:-server)?[ \t]*[=:](.*)$", re.MULTILINE)
_SETS_MODE = re.compile(r"^[ \t]*(chmod-socket|hook-master-start[ \t]*=.*chmod)", re.MULTILINE)
_YAML_SECTION = re.compile(r"^([\w.-]+):", re.MULTILINE)
_YAML_OPTION = re.compile(r"( +)[\w-]+: +[^ \[{|>&*#].*")
_TMPFILES_LINE = "d {directory} 2750 {owner} {group} -"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. lines: to be pasted, into the file that the heading names or into a shell."""

    heading: str
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Reader:
    """The user that runs the exporter. unit: whether it is the systemd unit, whose groups a drop-in sets; else its
    groups are those of the user."""

    name: str
    ids: Ids
    unit: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps for one uWSGI, and what was tried; or why there are none."""

    steps: Sequence[Step] = ()
    tried: str = ""
    warnings: Sequence[str] = ()
    why_none: str = ""


@dataclass(frozen=True, slots=True)
class _Place:
    """A directory for the socket. make: the step that makes it, None if it exists. exists: for how long."""

    directory: Path
    make: Step | None
    exists: str


def find_reader(name: str | None) -> Reader:
    """Find the user that runs the exporter: `name`, else the exporter's systemd unit, else the user behind sudo, else
    this one. Raises KeyError if there is no such user."""
    if name is None and (unit := _read_exporters_unit()):
        return unit
    known = pwd.getpwnam(name or os.environ.get("SUDO_USER", "")) if name or "SUDO_USER" in os.environ else None
    known = known or pwd.getpwuid(os.geteuid())
    groups = os.getgrouplist(known.pw_name, known.pw_gid)
    return Reader(known.pw_name, Ids(known.pw_uid, known.pw_gid, tuple(groups)))


def plan(launch: Launch, name: str, reader: Reader, alike: int) -> Plan:
    """Find the steps for one uWSGI. name: unique on this machine; alike: how many uWSGIs use its configuration file."""
    launch = replace(launch, why_no_reload=launch.why_no_reload or find_harm(launch))
    if reason := _why_not(launch, alike):
        return Plan(why_none=reason)
    own = launch.options.stats or _find_stats_line(launch.text)
    if own and not _is_harmless(launch, own):
        return _judge_own_stats(launch, own, name, reader)
    reasons = []
    for place in _list_places(launch, name, reader):
        try:
            _check_path(place.directory / SOCKET)
            _check_is_unused(launch, place.directory / SOCKET)
            may_read = _try_place(launch, place, reader)
        except (OSError, TrialError) as error:
            reasons.append(f"{place.directory}: {error}")
            continue
        return _make_plan(launch, name, reader, place, may_read)
    why_none = f"no directory passed the trial: {'; '.join(reasons)}"
    return _make_runtime_directory(launch, name, why_none) or Plan(why_none=why_none)


def _make_runtime_directory(launch: Launch, name: str, tried: str) -> Plan | None:
    """The steps for a systemd unit whose sandbox lets uWSGI write nowhere else (`ProtectSystem=strict`): a directory
    that systemd makes for it, which takes a restart. Then another run can try it. None for any other uWSGI."""
    unit, directory = _own_unit(launch), f"uwsgi-stats-{name}"
    # A directory that exists keeps its mode: the application's socket may lie in it.
    if not unit or directory in unit.runtime_directories or Path("/run", directory).exists() or os.geteuid() != 0:
        return None
    drop_in = f"/etc/systemd/system/{unit.name}.d"
    commands = [
        f"mkdir -p {shlex.quote(drop_in)}",
        f"printf '[Service]\\nRuntimeDirectory={directory}\\n' > {shlex.quote(f'{drop_in}/{directory}.conf')}",
        "systemctl daemon-reload",
    ]
    restart = f"Restart {unit.name} when that suits you, and run `discover` again: it then tries that directory:"
    steps = [
        Step(f"Give {unit.name} a directory of its own, below /run:", commands),
        Step(restart, [f"systemctl restart {shlex.quote(unit.name)}"]),
    ]
    return Plan(steps, tried)


def _own_unit(launch: Launch) -> Unit | None:
    """The systemd service whose main process this uWSGI is."""
    return launch.unit if launch.unit and launch.unit.main_pid == launch.master.pid else None


def _check_path(path: Path) -> None:
    """Raise TrialError for a path that uWSGI or a shell would not take as it is."""
    if not _PLAIN_PATH.fullmatch(str(path)):
        raise TrialError("it has characters that a configuration or a shell would take as special")
    if len(str(path)) > LONGEST_PATH:
        raise TrialError(f"{path} is longer than {LONGEST_PATH} bytes, more than uWSGI takes")


def _check_is_unused(launch: Launch, path: Path) -> None:
    """Raise TrialError for a socket of another uWSGI of this name, which does not run now and would bind it again."""
    if path.is_socket() and not launch.is_debian and _find_stats_line(launch.text) != str(path):
        raise TrialError(f"{path} may be of another uWSGI, which does not run now. If it is of none, `rm {path}`")


def _why_not(launch: Launch, alike: int) -> str:
    """Why no lines can be proposed, before any trial; empty if they can."""
    file = launch.file
    reasons = {
        "it runs in a container or another root directory: give it and the exporter a shared directory for the socket "
        "(deploy/container/README.md)": not launch.same_files,
        f"its configuration file is not known: {launch.why_no_file}": launch.why_no_file,
        f"lines are proposed for ini and YAML files only, and it uses {file}": (
            file and file.suffix not in (".ini", ".yml", ".yaml")
        ),
        f"the section `uwsgi` is not the last one in {file}, so lines at its end would not count": (
            file and file.suffix != ".ini" and _YAML_SECTION.findall(launch.text)[-1:] != ["uwsgi"]
        ),
        f"{file} has more than one option and its value in each line, so lines at its end might not count": (
            file and file.suffix != ".ini" and not _yaml_indent(launch.text)
        ),
        f"it has mounts of its own, with another {file} than the one that you see": (
            launch.identity and _identify(file) != launch.identity
        ),
        f"{alike} uWSGIs use {file}, under this name or another: with one `stats` line, each would take the socket of "
        "the one before": alike > 1,
        f"its Emperor reloads it as soon as its file changes, and {launch.why_no_reload}": (
            launch.why_no_reload and launch.master.emperor
        ),
        f"the trial does not know what this permits: {launch.confined}": launch.confined,
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _identify(file: Path | None) -> tuple[int, int] | None:
    try:
        status = os.stat(file) if file else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status else None


def _yaml_indent(text: str) -> str:
    """The indentation of the options, if a file has nothing but one option with its value in each line; else an empty
    text. After an option without a value, a uWSGI without libyaml ignores what follows."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    options = [line for line in lines if line not in ("---", "uwsgi:")]
    indents = {found[1] if found else "" for found in map(_YAML_OPTION.fullmatch, options)}
    return indents.pop() if len(indents) == 1 else ""


def _find_stats_line(text: str) -> str:
    """The value of the last option `stats` in a file, even within a condition; empty if there is none. If the file has
    sections `uwsgi`, those of other sections do not count."""
    _, *sections = _SECTION.split(text)
    own = [content for name, content in zip(sections[::2], sections[1::2], strict=True) if name == "uwsgi"]
    values = _STATS_LINE.findall("".join(own) or text)
    return values[-1].strip() if values else ""


def _is_harmless(launch: Launch, address: str) -> bool:
    """Whether a `stats` line is guarded by `if-dir`, and the directory is missing: so it has no effect."""
    directory = str(Path(address).parent)
    guard = rf"^[ \t]*if-dir[ \t]*[=:][ \t]*{re.escape(directory)}\s+stats[ \t]*[=:][ \t]*{re.escape(address)}[ \t]*$"
    return re.search(guard, launch.text, re.MULTILINE) is not None and not Path(directory).exists()


def _judge_own_stats(launch: Launch, address: str, name: str, reader: Reader) -> Plan:
    """Say what a reload would make of a `stats` line that is there already and not in effect."""
    there = f"{launch.file or 'its command line'} has `stats = {address}` already, and uWSGI did not take it yet"
    path = Path(address)
    if not _PLAIN_PATH.fullmatch(address):
        return Plan(why_none=f"{there}. Whether it could bind that was not tried: it is no plain absolute path")
    may_read = True
    try:
        _check_path(path)
        try_directory(launch.master.pid, launch.ids, path.parent, path.name, reader.ids)
    except TrialError as error:
        if not error.reads:
            return Plan(why_none=f"{there}. DO NOT RELOAD IT: that would end it ({error}). Remove the line first")
        may_read = False
    except OSError as error:
        return Plan(why_none=f"{there}. Whether it could bind that was not tried: {error}")
    if not may_read and not _has_name(launch.ids.gid):
        return Plan(
            why_none=f"{there}. It could bind that, but {reader.name} could not read it: {_nameless(launch.ids.gid)}"
        )
    where = launch.file or "the command line"
    steps = [] if may_read else _let_read(launch, path, reader)
    steps += [step for step in (_reload(launch, is_saved_now=False), _look_again(name)) if step]
    tried = f"user {user_name(launch.ids.uid)} can bind {path}, which {where} names already; {reader.name} "
    tried += "can connect to it" if may_read else "cannot yet connect to it"
    risk = f"every local user may write in {path.parent}, and put something there that ends uWSGI at its next start"
    return Plan(steps, tried, [*_list_warnings(launch), *([risk] if _is_everybodys(path.parent) else [])])


def _let_read(launch: Launch, path: Path, reader: Reader) -> list[Step]:
    """The steps that let the exporter connect to a stats socket that uWSGI is going to bind at its own path."""
    steps = [_join_group(launch.ids.gid, reader)]
    if launch.file and launch.file.suffix == ".ini" and not _SETS_MODE.search(launch.text):
        hook = dict(list_options(path.parent, path.name))["hook-master-start"]
        lines = [] if _last_section(launch.text) == "uwsgi" else ["[uwsgi]"]
        steps.append(Step(f"Add at the end of {launch.file}:", [*lines, f"hook-master-start = {hook}"]))
    return steps


def plan_reader(master: FoundMaster, reader: Reader) -> Plan:
    """The steps for a uWSGI whose stats this user can read and the exporter's user cannot; none if both can."""
    if os.geteuid() != 0 or not isinstance(master.address, Unix) or master.address.path.startswith("@"):
        return Plan()
    path = Path(master.address.path)
    try:
        found = path.stat()
        if has_access(path, reader.ids, os.W_OK):
            return Plan()
    except OSError:  # in another mount namespace: the exporter has to say why it cannot read it
        return Plan()
    look = f"namei -l {shlex.quote(str(path))}"
    tried = f"{reader.name} cannot connect to {path}: run `{look}` to see which directory or mode forbids it"
    if found.st_mode & 0o060 != 0o060:
        return Plan(tried=tried)
    if not _has_name(found.st_gid):
        return Plan(tried=f"{reader.name} cannot connect to {path}: {_nameless(found.st_gid)}")
    return Plan([_join_group(found.st_gid, reader)], tried)


def _list_places(launch: Launch, name: str, reader: Reader) -> Sequence[_Place]:
    """List the directories in which the socket could be, best first."""
    owner, group = user_name(launch.ids.uid), _group_name(_choose_group(launch, reader))
    if os.geteuid() != 0:
        directory = Path.home() / ".uwsgi" / name
        make = Step("Make a directory for the stats socket:", [f"install -d -m 2750 {directory}"])
        return [_Place(directory, None if directory.is_dir() else make, "the directory is in your home directory")]
    lasting = LASTING / name
    if launch.is_debian and (RUNTIME / name).is_dir():
        return [_Place(RUNTIME / name, None, "Debian's init script makes the directory at each start")]
    if SYSTEMD.is_dir() and shutil.which("systemd-tmpfiles"):
        runtime = RUNTIME if _is_the_systems(RUNTIME) else OWN_RUNTIME
        return [*_list_places_of_tmpfiles(runtime / name, owner, group), *_list_runtime_directories(launch)]
    commands = [f"install -d -m 2750 -o {owner} -g {group} {lasting}"]
    make = Step("Make a directory for the stats socket:", commands)
    return [_Place(lasting, None if lasting.is_dir() else make, "the directory is on a disk")]


def _list_places_of_tmpfiles(directory: Path, owner: str, group: str) -> list[_Place]:
    """A directory that systemd-tmpfiles makes at each boot. One that somebody else made is left as it is: it may hold
    the application's socket, to which a web server must find its way. Then another name is taken."""
    names = (directory.name, f"{directory.name}-stats", f"{directory.name}-uwsgi-headroom")
    free = [
        candidate
        for candidate in map(directory.with_name, names)
        if _is_ours(candidate, owner) or not (candidate.exists() or _tmpfile(candidate).exists())
    ]
    if not free:
        return []
    directory = free[0]
    kept = _tmpfile(directory)
    line = _TMPFILES_LINE.format(directory=directory, owner=owner, group=group)
    is_made = directory.is_dir() and kept.is_file() and line in kept.read_text(errors="replace").splitlines()
    commands = [f"echo '{line}' > {kept}", f"systemd-tmpfiles --create {kept.name}"]
    make = Step("Make a directory for the stats socket, now and at each boot:", commands)
    return [_Place(directory, None if is_made else make, f"systemd makes the directory at each boot ({kept})")]


def _is_ours(directory: Path, owner: str) -> bool:
    """Whether the tmpfile of a directory has the proposed line for this owner, with any group, and nothing else."""
    try:
        text = _tmpfile(directory).read_text(errors="replace")
    except OSError:
        return False
    line = _TMPFILES_LINE.format(directory=re.escape(str(directory)), owner=re.escape(owner), group=r"\S+")
    return re.fullmatch(line, text.rstrip("\n")) is not None


def _is_the_systems(directory: Path) -> bool:
    """Whether a directory below /run and those above it are root's alone, as systemd-tmpfiles demands, and none is a
    unit's `RuntimeDirectory`, which systemd removes, with all that is in it, when that unit stops."""
    given = list_runtime_directories()
    for path in (directory, *directory.parents):
        if path.exists():
            found = path.stat()
            if found.st_uid != 0 or (found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX):
                return False
        if path.is_relative_to("/run") and str(path.relative_to("/run")) in given:
            return False
    return True


def _tmpfile(directory: Path) -> Path:
    return TMPFILES / f"uwsgi-app-{directory.name}.conf"


def _list_runtime_directories(launch: Launch) -> list[_Place]:
    """List the directories that systemd makes for the unit, in which uWSGI may write whatever its sandbox."""
    unit = _own_unit(launch)
    if not unit:
        return []
    exists = f"systemd makes the directory at each start of {unit.name}"
    return [_Place(Path("/run", directory), None, exists) for directory in unit.runtime_directories]


def _choose_group(launch: Launch, reader: Reader) -> int:
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


def _try_place(launch: Launch, place: _Place, reader: Reader) -> bool:
    """Try a directory, or one like it beside it if it does not exist yet. Returns whether the exporter can read it.
    Raises OSError and TrialError."""
    if place.make is None:
        return _try_directory(launch, place.directory, reader)
    check_path_is_free(place.directory / SOCKET, launch.master.pid)
    parent = next(parent for parent in place.directory.parents if parent.is_dir())
    group = _choose_group(launch, reader)
    with trial_directory(parent, Ids(launch.ids.uid, group)) as directory:
        return _try_directory(launch, directory, reader)


def _try_directory(launch: Launch, directory: Path, reader: Reader) -> bool:
    if _is_everybodys(directory):
        raise TrialError("every local user may write in it, and put something there that ends uWSGI at its next start")
    try:
        try_directory(launch.master.pid, launch.ids, directory, SOCKET, reader.ids)
    except TrialError as error:
        if not error.reads:
            raise
        return False
    return True


def _is_everybodys(directory: Path) -> bool:
    try:
        return bool(directory.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _make_plan(launch: Launch, name: str, reader: Reader, place: _Place, may_read: bool) -> Plan:
    path = place.directory / SOCKET
    is_there = _find_stats_line(launch.text) == str(path)
    configure = [] if is_there else _configure(launch, place.directory)
    steps = [*([place.make] if place.make else []), *configure]
    if not may_read:
        if not _has_name(launch.ids.gid):
            return Plan(
                why_none=f"{reader.name} cannot read a socket in {place.directory}: {_nameless(launch.ids.gid)}"
            )
        steps.append(_join_group(launch.ids.gid, reader))
    if reload := _reload(launch, is_saved_now=bool(configure)):
        steps.append(reload)
    steps.append(_look_again(name))
    user = user_name(launch.ids.uid)
    there = f"At {path} is an old socket on which nobody listens" if path.exists() else f"Nothing is at {path} yet"
    tried = (
        f"user {user} can bind a socket in {place.directory}{' once it is made' if place.make else ''}, and "
        f"{reader.name} {'can' if may_read else 'cannot yet'} connect to that socket. {there}; {place.exists}"
    )
    return Plan(steps, tried, _list_warnings(launch))


def _look_again(name: str) -> Step:
    return Step(
        "See that your application still answers, then run `discover` again: it must list the stats server of "
        f"{name}. If uWSGI is gone, remove the lines and start it; its log has the reason."
    )


def list_options(directory: Path, name: str = SOCKET) -> list[tuple[str, str]]:
    """List the options of uWSGI that serve its stats on this socket: name and value, in this order."""
    path = directory / name
    return [
        ("if-dir", str(directory)),
        ("stats", str(path)),
        ("hook-master-start", f"safeexec:chmod {MODE:o} {path}"),
        ("endif", ""),
    ]


def _configure(launch: Launch, directory: Path) -> list[Step]:
    # Within a condition or a loop, `if-dir` ends uWSGI. `endif` closes either, and does nothing otherwise (tried).
    options = [*([("endif", "")] if launch.may_be_open else []), *list_options(directory)]
    if launch.file is None:
        words = " ".join(f"--{key} {_quote(value)}".rstrip() for key, value in options)
        unit = _own_unit(launch)
        where = f" (ExecStart= of {unit.name}: systemctl edit --full {shlex.quote(unit.name)})" if unit else ""
        return [Step(f"Add these options to the end of the command line that starts uWSGI{where}:", [words])]
    is_reloaded = launch.master.emperor and not launch.file.is_symlink()
    at_once = "; its Emperor reloads it as soon as the file changes" if is_reloaded else ""
    file = shlex.quote(str(launch.file))
    end_line = Step(f"The last line of {launch.file} has no line break. Give it one:", [f"echo >> {file}"])
    steps = [end_line] if launch.text and not launch.text.endswith("\n") else []
    if launch.file.suffix == ".ini":
        lines = [f"{key} = {value}".rstrip() for key, value in options]
        lines = lines if _last_section(launch.text) == "uwsgi" else ["[uwsgi]", *lines]
        return [*steps, Step(f"Add at the end of {launch.file}{at_once}:", lines)]
    # As a command, because in YAML the indentation counts, and pasting may change it.
    lines = [f"{_yaml_indent(launch.text)}{key}: {value or 'true'}" for key, value in options]
    command = f"printf '%s\\n' {' '.join(map(shlex.quote, lines))} >> {file}"
    return [*steps, Step(f"Extend {launch.file} by this command{at_once}:", [command])]


def _quote(value: str) -> str:
    return f"'{value}'" if " " in value else value


def _last_section(text: str) -> str:
    sections = _SECTION.findall(text)
    return sections[-1] if sections else ""


def _has_name(gid: int) -> bool:
    try:
        grp.getgrgid(gid)
    except KeyError:
        return False
    return True


def _nameless(gid: int) -> str:
    """Why nobody can be put into the group of a dynamic user."""
    return (
        f"its group {gid} has no name here, so no other user can be put into it. Give uWSGI's unit a group that exists "
        "(`Group=`) and restart it, then run `discover` again"
    )


def _join_group(gid: int, reader: Reader) -> Step:
    group = _group_name(gid)
    if reader.unit:
        drop_in = f"/etc/systemd/system/{EXPORTERS_UNIT}.d"
        return Step(
            f"Put the exporter into the group {group}, which may read the socket:",
            [
                f"mkdir -p {drop_in}",
                f"printf '[Service]\\nSupplementaryGroups={group}\\n' > {drop_in}/group-{group}.conf",
                "systemctl daemon-reload",
                f"systemctl restart {EXPORTERS_UNIT}",
            ],
        )
    return Step(
        f"Put the exporter's user {reader.name} into the group {group}, which may read the socket. Then start the "
        "exporter in a new session:",
        [f"usermod --append --groups {group} {reader.name}"],
    )


def _reload(launch: Launch, *, is_saved_now: bool) -> Step | None:
    """The step that makes uWSGI read its configuration again; None if an Emperor does so because its file was saved."""
    pid = launch.master.pid
    unit = _own_unit(launch)
    if launch.master.emperor and launch.file:
        if is_saved_now and not launch.file.is_symlink():
            return None
        # It looks at the link, not at the file.
        return Step("Have the Emperor reload it:", [f"touch -h {shlex.quote(str(launch.file))}"])
    if launch.file is None or launch.why_no_reload:
        commands = [f"systemctl restart {shlex.quote(unit.name)}"] if unit else []
        why = launch.why_no_reload or "a reload keeps the old command line"
        return Step(
            f"Stop and start uWSGI when that suits you; do not reload it: {why}{':' if unit else '.'}", commands
        )
    if launch.is_debian:
        return Step("Reload uWSGI:", [f"service uwsgi reload {shlex.quote(launch.file.stem)}"])
    if unit and unit.can_reload:
        return Step("Reload uWSGI:", [f"systemctl reload {shlex.quote(unit.name)}"])
    return Step("Reload uWSGI:", [f"kill -HUP {pid}"])


def _list_warnings(launch: Launch) -> list[str]:
    warnings = []
    if launch.changed:
        warnings.append(f"{launch.file} was changed after uWSGI read it, and it will read those changes too")
    if launch.ids.uid == 0:
        warnings.append("this uWSGI runs as root, and anyone who controls its application has root's rights")
    return warnings


def _read_exporters_unit() -> Reader | None:
    shown = show_properties(EXPORTERS_UNIT, "LoadState", "User", "DynamicUser", "SupplementaryGroups")
    if shown.get("LoadState") != "loaded":
        return None
    groups = []
    for group in shown.get("SupplementaryGroups", "").split():
        try:
            groups.append(grp.getgrnam(group).gr_gid)
        except KeyError:
            continue
    nobody = 65534
    try:
        user = pwd.getpwnam(shown.get("User") or "uwsgi-headroom")
        ids = Ids(user.pw_uid, user.pw_gid, tuple(groups))
    except KeyError:  # a dynamic user that does not run now
        ids = Ids(nobody, nobody, tuple(groups))
    return Reader(EXPORTERS_UNIT, ids, unit=True)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
