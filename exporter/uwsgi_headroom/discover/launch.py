"""Reads how a uWSGI master was started: as which user, from which file, by what, and in which surroundings.

Everything comes from /proc, read in the reader process, and where systemd runs from `systemctl show`. The file is the
one in which a new option takes effect: the last on the command line that is not a distribution's own. A relative name
is looked up in the directories from which uWSGI may have been started, because an option `chdir` hides the real one.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from uwsgi_headroom.discover.find import FoundMaster, ask_in_time
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.as_user import Ids
from uwsgi_headroom.kernel.options import MasterFiles, read_options
from uwsgi_headroom.kernel.processes import list_children
from uwsgi_headroom.record import DISTRIBUTIONS_FILES, Options

SYSTEMD = Path("/run/systemd/system")
"""Exists while systemd is the machine's init: sd_booted(3)."""

_SYSTEMCTL_SECONDS = 2.0
_SUFFIXES = (".ini", ".xml", ".yaml", ".yml", ".json", ".js")
_UNCONFINED = re.compile(r"|unconfined|kernel|.*:(unconfined|unconfined_service|initrc|kernel)_t(:.*)?")
"""Labels of AppArmor and SELinux under which a process may do what its user may do."""

_MOST_BYTES = 128 << 10
"""Of a command line, and of an environment: a longer one is not used."""


class LaunchError(Exception):
    """Why nothing is tried for a process; the message completes "No steps are proposed: ..."."""


class Unit(Struct, frozen=True):
    """A systemd service. main_pid: its main process, 0 if unknown; can_reload: whether it has a reload command;
    user: as which it starts its processes, empty for root."""

    name: str
    main_pid: int
    can_reload: bool
    user: str = ""


class Launch(Struct, frozen=True):
    """How one master was started."""

    master: FoundMaster
    ids: Ids

    file: Path | None
    """The absolute path of its configuration file, as the master sees it; None with `why_no_file`, or if all of its
    options are on the command line."""
    text: str
    """The content of the file."""
    why_no_file: str = ""
    identity: tuple[int, int] | None = None
    """Device and inode of the file as the master sees it, None if unknown."""

    unit: Unit | None = None
    """The service that it belongs to."""
    options: Options = Options()
    """What is known of them."""
    option_names: tuple[str, ...] = ()
    """The names of those that command line, environment and file set, as far as they are visible."""
    program: str = ""
    is_program_gone: bool = False
    """The path of its program, and whether nothing is there any more."""
    confined: str = ""
    """What restricts it beyond its user and mounts (SELinux, AppArmor, seccomp), empty for nothing."""
    has_own_files: bool = False
    """Whether it has another root directory, or another mount namespace, than this process."""
    is_debian: bool = False
    """Whether Debian's init script manages it."""
    why_no_reload: str = ""
    """Why a full reload may end it (`steps.find_harm`), empty if it does not."""

    @property
    def own_unit(self) -> Unit | None:
        """The systemd service whose main process this uWSGI is."""
        return self.unit if self.unit and self.unit.main_pid == self.master.pid else None


def read_launch(master: FoundMaster, end: float) -> Launch:
    """Read how a master was started. Raises OSError if it has ended, or if this user may not see it; LaunchError;
    TimeoutError with the reason if it does not come within a second, or if it is later than `end`."""
    return ask_in_time(end, _read, master, _show_unit(master.unit) if master.unit else None)


def _read(master: FoundMaster, unit: Unit | None) -> Launch:
    process = f"/proc/{master.pid}"
    words, environment = _read_list(process, "cmdline"), _read_list(process, "environ")
    starts = (procfs.read_start(pid) for pid in list_children(master.pid))
    options = read_options(master.pid, oldest_worker=min((start for start in starts if start), default=None))
    file, text, why = _find_file(master, options, words, environment)
    on_debian = any(name.endswith("/conf/default.ini") for name in options.configuration_files)
    program = os.readlink(f"{process}/exe").removesuffix(" (deleted)")
    return Launch(
        master=master,
        ids=read_ids(master.pid),
        file=file,
        text=text,
        why_no_file=why,
        identity=_identify(master.pid, file),
        unit=unit,
        options=options,
        option_names=tuple(_list_option_names(words, environment, file, text)),
        program=program,
        is_program_gone=not os.path.exists(f"{process}/root{program}"),
        confined=_read_confinement(process),
        has_own_files=os.readlink(f"{process}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
        or not os.path.samestat(os.stat(f"{process}/root"), os.stat("/")),
        is_debian=on_debian and master.unit in ("", "uwsgi.service") and Path("/etc/init.d/uwsgi").exists(),
    )


def _read_list(process: str, name: str) -> list[str]:
    """The words of a command line or an environment; none if it is longer than is read. Raises OSError."""
    text = procfs.read_begin(_MOST_BYTES, process, name)
    if len(text) >= _MOST_BYTES:
        return []
    return os.fsdecode(text).removesuffix("\0").split("\0")


def read_ids(pid: int) -> Ids:
    """Read the ids of a process. Raises OSError if it is gone; LaunchError if its real, effective, saved and filesystem
    ids differ: its program has rights (set-user-ID, set-group-ID) that the user who controls it has not."""
    uids, gids, groups = (procfs.read_status(name, f"/proc/{pid}/status") for name in ("Uid", "Gid", "Groups"))
    if not uids or not gids or groups is None:
        raise ProcessLookupError
    if len({*uids}) > 1 or len({*gids}) > 1:
        raise LaunchError(
            f"its real, effective and saved users ({b' '.join(uids).decode()}) or groups ({b' '.join(gids).decode()}) "
            "differ, as those of a set-user-ID program do"
        )
    return Ids(int(uids[0]), int(gids[0]), tuple(map(int, groups)))


def _read_confinement(process: str) -> str:
    """The security label of a process, if it restricts it, or that it has seccomp filters that this one has not, whose
    child would try in vain; empty for neither."""
    with contextlib.suppress(OSError):  # no security module
        label = procfs.read_line(f"{process}/attr/current").decode(errors="replace").strip("\0\n ")
        if not _UNCONFINED.fullmatch(label):
            return label
    names = ("Seccomp", "Seccomp_filters")
    theirs, ours = ([procfs.read_status(name, of, "status") for name in names] for of in (process, "/proc/self"))
    return "" if theirs == ours else "a seccomp filter, such as a unit's `SystemCallFilter=`"


def _find_file(
    master: FoundMaster, options: Options, words: Sequence[str], environment: Sequence[str]
) -> tuple[Path | None, str, str]:
    """Find the configuration file of a master. Returns its path and content, or the reason why it is not known; three
    times nothing if all options are on the command line."""
    files, name = MasterFiles(master.pid), options.configuration_file
    if len(words) < 2:
        return None, "", "its command line is overwritten (`auto-procname`, `procname`), too long, or without options"
    if not name:
        has_files = options.configuration_files or any(word.endswith(_SUFFIXES) for word in words)
        return None, "", "which file of its own it loads is not certain from its command line" if has_files else ""
    found: dict[Path, str] = {}
    # Where it may have been started: in its working directory, in that of the shell that started it, or in that of its
    # emperor, which is the directory of the vassals.
    directories = [master.directory, *(variable[4:] for variable in environment if variable.startswith("PWD=/"))][:2]
    if master.emperor:
        with contextlib.suppress(OSError):
            directories.append(os.readlink(f"/proc/{master.emperor}/cwd"))
    for directory in filter(None, directories):
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


_SET_BY_UWSGI = ("UWSGI_ORIGINAL_PROC_NAME=", "UWSGI_RELOADS=", "UWSGI_EMPEROR_", "UWSGI_VASSAL")

_HOOK_THAT_MAY_FAIL = re.compile(r"[ \t]*hook-[\w-]+[ \t]*[=:][ \t]*safeexec:")
"""A hook whose command may fail: uWSGI goes on. The lines that `discover` prints have one."""


def _list_option_names(words: Sequence[str], environment: Sequence[str], file: Path | None, text: str) -> Iterator[str]:
    """List the names of the options of the command line, the environment and the file, as far as they are visible.
    Of a file that was not read, `ini` or its like is listed; that of a distribution is known to be harmless."""
    own = {str(file), file.name} if file else set()
    for word, following in zip(words[1:], [*words[2:], ""], strict=False):
        name, _, value = word.removeprefix("--").partition("=")
        if word.startswith("--"):
            loaded = value or following
            is_read = loaded.startswith(DISTRIBUTIONS_FILES) or not own.isdisjoint((loaded, os.path.basename(loaded)))
            if name not in ("ini", "yaml", "yml") or not is_read:
                yield name
        elif re.fullmatch(r"-[A-Za-z]", word):
            yield word
    for variable in environment:
        if variable.startswith("UWSGI_") and "=" in variable and not variable.startswith(_SET_BY_UWSGI):
            yield variable[6 : variable.index("=")].lower().replace("_", "-")
    separator = "=" if file and file.suffix == ".ini" else ":"
    for line in text.splitlines():
        name = line.partition(separator)[0].strip()
        if name and name[0] not in "#;[" and line.strip() != "uwsgi:" and not _HOOK_THAT_MAY_FAIL.match(line):
            yield name


def _show_unit(name: str) -> Unit | None:
    """Ask systemd about a service of the machine; None if systemd does not run here or does not know it."""
    shown = show_properties(name, "LoadState", "MainPID", "CanReload", "User", "DynamicUser")
    if shown.get("LoadState") != "loaded":
        return None
    user = shown.get("User") or "a dynamic user" * (shown.get("DynamicUser") == "yes")
    return Unit(
        name,
        main_pid=int(shown.get("MainPID") or 0),
        can_reload=shown.get("CanReload") == "yes",
        user=user * (user not in ("root", "0")),
    )


def show_properties(unit: str, *properties: str) -> Mapping[str, str]:
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
