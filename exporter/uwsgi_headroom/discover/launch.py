"""Reads how a uWSGI master was started: as which user, from which file, by what, and in which surroundings.

Everything comes from /proc and, where systemd runs, from `systemctl show`. The file is the one in which a new option
takes effect: the last on the command line that is not a distribution's own. A relative name is looked up in the
directories from which uWSGI may have been started, because an option `chdir` hides the real one.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from uwsgi_headroom.discover.find import FoundMaster, read_command_line
from uwsgi_headroom.kernel.options import MasterFiles, read_options
from uwsgi_headroom.kernel.processes import list_children
from uwsgi_headroom.record import DISTRIBUTIONS_FILES, Options

SYSTEMD = Path("/run/systemd/system")
"""Exists while systemd is the machine's init: sd_booted(3)."""

_SYSTEMCTL_SECONDS = 5.0
_COMMAND = re.compile(r"argv\[\]=(.*?) ;")  # of `systemctl show --property=ExecStart`
_FORMATS = ("ini", "xml", "xmlconfig", "yaml", "yml", "json", "js", "ini-paste", "ini-paste-logged")
_LOGIC = re.compile(r"if[a-z-]*|for(-.*)?")
_SUFFIXES = (".ini", ".xml", ".yaml", ".yml", ".json", ".js")
_UNCONFINED = re.compile(r"|unconfined|kernel|.*:(unconfined|unconfined_service|initrc|kernel)_t(:.*)?")
"""Labels of AppArmor and SELinux under which a process may do what its user may do."""


@dataclass(frozen=True, slots=True)
class Ids:
    """What the kernel checks when a process opens a file: effective user and group, and the supplementary groups."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """A systemd service. main_pid: its main process, 0 if unknown; can_reload: whether it has a reload command;
    runtime_directories: names below /run; command: the words that start it, if none of them has a blank; families: the
    kinds of sockets that it permits (`RestrictAddressFamilies`), empty for all; user: as which it starts its processes,
    empty for root."""

    name: str
    main_pid: int
    can_reload: bool
    runtime_directories: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    user: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """How one master was started."""

    master: FoundMaster
    ids: Ids

    file: Path | None
    """The absolute path of its configuration file, as the master sees it; None with `why_no_file`, or if all of its
    options are on the command line."""
    text: str
    """The content of the file."""
    why_no_file: str

    unit: Unit | None
    """The service that it belongs to."""
    options: Options
    """What is known of them."""
    confined: str
    """What restricts it beyond its user and mounts (SELinux, AppArmor, seccomp), empty for nothing."""
    same_files: bool
    """Whether the master sees the same files as this process."""
    changed: bool
    """Whether the file was changed after the start of a worker that still runs, so that a reload applies more than new
    lines."""
    is_debian: bool
    """Whether Debian's init script manages it."""
    why_no_reload: str = ""
    """Why a full reload may end it (`reload.find_harm`), empty if it does not."""
    identity: tuple[int, int] | None = None
    """Device and inode of the file as the master sees it, None if unknown."""
    may_be_open: bool = False
    """Whether a condition or a loop may still be open where new options go."""


def read_launch(master: FoundMaster) -> Launch | None:
    """Read how a master was started; None if it has ended, or if this user may not see it."""
    pid = master.pid
    try:
        ids = read_ids(pid)
        workers = list_children(pid)
        same_files = _sees_the_same_files(pid)
        label, is_filtered = _read_label(pid), _read_filters(pid) != _read_filters("self")
    except (OSError, ValueError):
        return None
    options = read_options(pid, oldest_worker=min(map(_start, workers), default=None))
    unit = _show_unit(master.unit) if master.unit else None
    file, text, why = _find_file(master, options, unit)
    on_debian = any(name.endswith("/conf/default.ini") for name in options.configuration_files)
    return Launch(
        master=master,
        ids=ids,
        file=file,
        text=text,
        why_no_file=why,
        unit=unit,
        options=options,
        confined=label or (judge_filter(unit) if is_filtered else ""),
        same_files=same_files,
        changed=options.changed,
        identity=_identify(pid, file),
        may_be_open=may_be_open(text, options.configuration_files, read_command_line(pid)),
        is_debian=on_debian and master.unit in ("", "uwsgi.service") and Path("/etc/init.d/uwsgi").exists(),
    )


def read_ids(pid: int) -> Ids:
    """Read the effective ids of a process. Raises OSError if it is gone."""
    fields: dict[str, list[int]] = {}
    for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key in ("Uid", "Gid", "Groups"):
            fields[key] = [int(number) for number in value.split()]
    return Ids(fields["Uid"][1], fields["Gid"][1], tuple(fields["Groups"]))


def _start(pid: int) -> float:
    """When a process was started, in epoch seconds; now if it has ended."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return float("inf")


def _sees_the_same_files(pid: int) -> bool:
    """Whether a process has this process's root directory. Its mounts may differ (a unit's `PrivateTmp`)."""
    root = os.stat(f"/proc/{pid}/root")
    return os.path.samestat(root, os.stat("/"))


def _read_label(pid: int) -> str:
    """Read the security label of a process, if it restricts the process; else an empty text."""
    try:
        label = Path(f"/proc/{pid}/attr/current").read_text(errors="replace").strip("\0\n ")
    except OSError:  # no security module
        return ""
    return "" if _UNCONFINED.fullmatch(label) else label


def _read_filters(pid: int | str) -> list[str]:
    """Read the mode and number of the seccomp filters of a process. A child of this process has this process's."""
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    return [line for line in lines if line.startswith("Seccomp")]


def judge_filter(unit: Unit | None) -> str:
    """Why a seccomp filter may forbid UNIX sockets; empty if its unit permits them. uWSGI's own pairs of sockets work
    under every filter, so that it runs at all says nothing."""
    if unit is None:
        return "a seccomp filter that this process does not have"
    families = {family.lstrip("~") for family in unit.families}
    is_deny_list = any(family.startswith("~") for family in unit.families)
    if not families or ("AF_UNIX" in families) != is_deny_list:
        return ""
    return f"`RestrictAddressFamilies` of {unit.name} permits no UNIX sockets"


def _find_file(master: FoundMaster, options: Options, unit: Unit | None) -> tuple[Path | None, str, str]:
    """Find the file for new options and its content; else the reason why it is unknown, which is empty if all options
    are on the command line. `auto-procname` overwrites the command line; the unit may still have it."""
    files = MasterFiles(master.pid)
    try:
        words = files.read_command_line()
    except OSError as error:
        return None, "", f"its command line is not visible ({error.strerror or error})"
    name = options.configuration_file
    if len(words) < 2:
        named = _read_names(unit.command) if unit and unit.main_pid == master.pid else []
        if len(named) != 1:
            return None, "", "its command line is overwritten (`auto-procname`, `procname`) or has no options"
        (name,) = named
    if not name:
        has_files = options.configuration_files or any(word.endswith(_SUFFIXES) for word in words)
        return None, "", "which file of its own it loads is not certain from its command line" if has_files else ""
    found: dict[Path, str] = {}
    for directory in _list_directories(master):
        path = Path(os.path.normpath(os.path.join(directory, name)))
        with contextlib.suppress(OSError, ValueError):
            found[path] = files.read(str(path))
    if not found:
        return None, "", f"{name} is not where it would be, relative to its working directory, or may not be read"
    if len(found) > 1:
        return None, "", f"{name} may be one of {' and '.join(map(str, found))}"
    ((path, text),) = found.items()
    return path, text, ""


def _identify(pid: int, file: Path | None) -> tuple[int, int] | None:
    with contextlib.suppress(OSError, ValueError):
        return MasterFiles(pid).identify(str(file)) if file else None
    return None


def may_be_open(text: str, files: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a condition (`if-...`) or a loop (`for`) may still be open after the options of a file: uWSGI ends if
    another one begins in it. What other files leave open is not known."""
    is_open = len([name for name in files if not name.startswith(DISTRIBUTIONS_FILES)]) > 1
    on_command_line = [word[2:].partition("=")[0] for word in words if word.startswith("--")]
    for key in [*(key for key in on_command_line if key not in _FORMATS), *_list_keys(text)]:
        if key.startswith("end"):
            is_open = False
        elif key in ("include", "inherit", "config", *_FORMATS) or _LOGIC.fullmatch(key):
            is_open = True
    return is_open


def _list_keys(text: str) -> list[str]:
    return [re.split("[=:]", line, maxsplit=1)[0].strip() for line in text.splitlines()]


def _read_names(command: Sequence[str]) -> list[str]:
    """Read the absolute names of configuration files from a command, without a distribution's."""
    words = [word.partition("=")[2] if word.startswith("--") else word for word in command[1:]]
    return [
        word
        for word in words
        if word.startswith("/") and word.endswith(_SUFFIXES) and not word.startswith(DISTRIBUTIONS_FILES)
    ]


def _list_directories(master: FoundMaster) -> Sequence[str]:
    """List the directories from which a master may have been started: its working directory, the one of the shell that
    started it, and that of its emperor, which is the directory of the vassals."""
    found = [master.directory]
    with contextlib.suppress(OSError):
        variables = Path(f"/proc/{master.pid}/environ").read_bytes().split(b"\0")
        found += [os.fsdecode(variable[4:]) for variable in variables if variable.startswith(b"PWD=/")]
    if master.emperor:
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/{master.emperor}/cwd"))
    return [directory for directory in found if directory]


def _show_unit(name: str) -> Unit | None:
    """Ask systemd about a service of the machine; None if systemd does not run here or does not know it."""
    shown = show_properties(
        name,
        "LoadState",
        "MainPID",
        "CanReload",
        "RuntimeDirectory",
        "ExecStart",
        "RestrictAddressFamilies",
        "User",
        "DynamicUser",
    )
    if shown.get("LoadState") != "loaded":
        return None
    command = _COMMAND.search(shown.get("ExecStart", ""))
    return Unit(
        name,
        main_pid=int(shown.get("MainPID") or 0),
        can_reload=shown.get("CanReload") == "yes",
        runtime_directories=tuple(shown.get("RuntimeDirectory", "").split()),
        command=tuple(command[1].split()) if command else (),
        families=tuple(shown.get("RestrictAddressFamilies", "").split()),
        user=_user_of(shown),
    )


def _user_of(shown: Mapping[str, str]) -> str:
    user = shown.get("User") or ("a dynamic user" if shown.get("DynamicUser") == "yes" else "")
    return "" if user in ("root", "0") else user


def show_properties(unit: str, *properties: str) -> dict[str, str]:
    """Ask systemd for properties of a unit; nothing if systemd does not run here or does not answer."""
    answer = _ask_systemd(f"--property={','.join(properties)}", "--", unit)
    return dict(line.split("=", 1) for line in answer if "=" in line)


def list_runtime_directories() -> set[str]:
    """List what the services of this machine have as `RuntimeDirectory`: names below /run."""
    answer = _ask_systemd("--property=RuntimeDirectory", "*.service")
    return {name for line in answer for name in line.partition("=")[2].split()}


def _ask_systemd(*arguments: str) -> list[str]:
    """The lines of `systemctl show`; none if systemd does not run here or does not answer."""
    if not SYSTEMD.is_dir():
        return []
    command = ["systemctl", "show", *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_SYSTEMCTL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return answer.stdout.splitlines()


def user_name(uid: int) -> str:
    """The name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
