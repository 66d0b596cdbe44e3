"""Reads a uWSGI ini file for `tune`: decides what of it is measured, and finds the variant that it describes.

`Reader` reads its lines and those of the files that it includes, in uWSGI's order. `edit_ini` writes the recommended
file: the given one with another setting, and every other line as it was.
"""

from __future__ import annotations

import difflib
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from uwsgi_headroom import ini_syntax
from uwsgi_headroom.analysis.what_if import SettingError, parse_setting
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.ini_syntax import DEFAULT_SECTION, is_on, list_options
from uwsgi_headroom.tune.application.variant import DEFAULT_LISTEN, Variant
from uwsgi_headroom.words.formats import counted

# What could touch something beside the measured server is left out. Everything else is kept: what is not known here may
# decide how fast the application is. The names are those of uWSGI 2.0 (core/uwsgi.c and its plugins).
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


TUNED = ("processes", "workers", "threads", "thunder-lock", "cheaper", "cheaper-initial", "listen")
"""Options that `tune` sets itself in each variant."""

_ASYNC = ("async", "gevent", "asyncio", "ugreen", "gevent-early-monkey-patch", "tornado", "greenlet", "coroae", "loop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ini:
    """An ini file as `tune` uses it. The first four are the arguments of `read_ini`."""

    path: Path
    section: str
    cpus: int
    directory: Path
    text: str
    """The file itself, without those that it includes."""
    kept: tuple[Line, ...]
    """The lines that are measured."""
    off: tuple[str, ...]
    """The options that are left out, in order."""
    present: Variant
    """The variant that the file describes."""

    def render(self) -> str:
        """The ini file that is measured, without what each variant sets."""
        # A condition without an end would swallow the options of uWSGI's command line, which follow.
        end = ["endif = \n"] if self.kept and self.kept[-1].conditional else []
        return "".join(["[uwsgi]\n", *(f"{line.key} = {line.value}\n" for line in self.kept), *end])


def read_ini(
    path: Path,
    cpus: int,
    environment: Mapping[str, str] = os.environ,
    text: str | None = None,
    directory: Path = Path(),
    section: str = DEFAULT_SECTION,
) -> Ini:
    """Read an ini file and the ones that it includes. cpus: of the machine, for `%k`. text: to read instead of what is
    in the file. directory: in which uWSGI starts. Raises ConfigError."""
    own = read_text(path) if text is None else text
    lines = tuple(Reader(path, directory).read(section, own))
    _refuse(path, lines)
    kept, off, dropped = [], list[str](), dict[str, str]()
    for line in lines:
        value = rewrite_value(line.key, line.value)
        if value != line.value or find_group(line.key):
            off.append(line.key)
        if line.key in TUNED or find_group(line.key):
            dropped[line.key] = line.value
        else:
            kept.append(replace(line, value=_fill_in(value, dropped)))
    present = _find_present(path, lines, cpus, environment)
    return Ini(
        path=path,
        section=section,
        cpus=cpus,
        directory=directory,
        text=own,
        kept=tuple(kept),
        off=tuple(off),
        present=present,
    )


def reread(ini: Ini, text: str) -> Ini:
    """The same file with another text. Raises ConfigError."""
    return read_ini(ini.path, ini.cpus, text=text, directory=ini.directory, section=ini.section)


def _fill_in(value: str, dropped: Mapping[str, str]) -> str:
    """Replace `%(option)` by its value, if that option is not in the measured file."""
    for name in re.findall(r"%\(([^)]+)\)", value):
        if name in dropped:
            value = value.replace(f"%({name})", dropped[name])
    return value


def _refuse(path: Path, lines: tuple[Line, ...]) -> None:
    """Raise ConfigError for servers of a kind that has no processes and threads to choose."""
    for line in lines:
        if line.key in _ASYNC and is_on(line.value):
            raise ConfigError(
                f"{path}: {line.key} serves many requests with one thread; tune is for processes and threads"
            )
        if line.key == "map-socket":
            raise ConfigError(f"{path}: map-socket gives processes sockets of their own; remove it, then run tune")
    named = any(line.key in ("emperor", "vassals-dir") for line in lines)
    if named and not any(line.key in ("module", "wsgi", "wsgi-file", "file", "mount", "paste") for line in lines):
        raise ConfigError(f"{path} is an emperor's, without an application: give the ini file of one vassal")


def _find_present(path: Path, lines: tuple[Line, ...], cpus: int, environment: Mapping[str, str]) -> Variant:
    values: dict[str, Line] = {}
    for line in lines:
        values["processes" if line.key == "workers" else line.key] = line

    def number(key: str, default: int) -> int:
        line = values.get(key)
        if line is None or not line.value:
            return default
        text = _resolve(line.value, values, cpus, environment)
        if line.conditional or not re.fullmatch(r"\d{1,6}", text):
            raise ConfigError(
                f"{line.file}, line {line.number}: tune needs the number of {key}, and this is "
                f"{'within a condition' if line.conditional else repr(line.value)}: write the number"
            )
        return int(text)

    try:
        setting = parse_setting(f"{number('processes', 1)}x{number('threads', 1)}")
    except SettingError as error:
        raise ConfigError(f"{path}: {error}") from None
    listen = number("listen", DEFAULT_LISTEN)
    thunder_lock = "thunder-lock" in values and is_on(values["thunder-lock"].value)
    variant = Variant(
        setting,
        thunder_lock=thunder_lock,
        cheaper=number("cheaper", 0) or None,
        listen=None if listen == DEFAULT_LISTEN else listen,
    )
    return variant.with_setting(setting)


def _resolve(value: str, values: Mapping[str, Line], cpus: int, environment: Mapping[str, str]) -> str:
    """Replace `%k`, `$(VARIABLE)` and `%(name)`, one level deep; what is not known stays."""

    def substitute(match: re.Match[str]) -> str:
        if match[0] == "%k":
            return str(cpus)
        if match[2]:
            return environment.get(match[2], match[0])
        return values[match[1]].value if match[1] in values else match[0]

    return PLACEHOLDER.sub(substitute, PLACEHOLDER.sub(substitute, value)).strip()


MOST_BYTES = 256 << 10
MOST_FILES = 20

PLACEHOLDER = re.compile(r"%\(([^)]+)\)|\$\(([^)]+)\)|%k")

_MAGIC = re.compile(r"%([%oOpPsSdDeEnNcCxX0-9])")


@dataclass(frozen=True, slots=True)
class Line:
    """An option, and where it stands."""

    file: Path
    number: int
    key: str
    value: str
    conditional: bool = False
    """Whether it stands within a condition or a loop."""


class Reader:
    """Reads a file and what it includes. first: the file that was given. directory: in which uWSGI starts, against
    which it resolves names."""

    def __init__(self, first: Path, directory: Path) -> None:
        self._first = self._latest = first
        self._directory = directory
        self._inherited: deque[tuple[str, Path, bool]] = deque()
        self._count = 0

    def read(self, section: str, text: str) -> Iterator[Line]:
        """The options in a section of the given file, with those of included files in their place, and inherited ones
        last. Raises ConfigError."""
        yield from self._read(self._first, section, text, within=False)
        while self._inherited:
            yield from self._include(*self._inherited.popleft())

    def _read(self, path: Path, section: str, text: str, within: bool) -> Iterator[Line]:
        """within: whether the file is included within a condition."""
        self._count += 1
        if self._count > MOST_FILES:
            raise ConfigError(f"{self._first} includes more than {counted(MOST_FILES, 'file')}")
        self._latest = path
        found, conditional = False, within
        for number, *written in ini_syntax.list_options(text, section):
            found = True
            key, value = ini_syntax.resolve_set(*written)
            if ini_syntax.begins_block(key):
                conditional = True
            elif ini_syntax.ends_block(key):
                conditional = within
            if key == "inherit":
                self._inherited.append((value, path, conditional))
            elif key in ini_syntax.LOADS:
                yield from self._include(value, path, conditional)
            elif key in ini_syntax.OTHER_FORMATS:
                raise ConfigError(f"{path}, line {number}: tune reads ini files only, and {key} loads another")
            else:
                yield Line(path, number, key, _replace_magic(value, path, section, self._first), conditional)
        if not found:
            raise ConfigError(f"{path} has no options in a section [{section}]: tune reads ini files only")

    def _include(self, name: str, path: Path, conditional: bool) -> Iterator[Line]:
        """path: of the file that names it."""
        file, section = ini_syntax.split_name(name)
        file = _replace_magic(file, path, ini_syntax.DEFAULT_SECTION, self._first).replace("%%", "%")
        if "://" in name or PLACEHOLDER.search(file):
            raise ConfigError(f"{path}: tune cannot follow {name}: give an ini file without it")
        included = self._directory / file if file else self._latest
        if conditional and not included.exists():
            return  # the condition is false, such as `if-exists`
        yield from self._read(included, section, read_text(included), conditional)


def read_text(path: Path) -> str:
    """The text of an ini file; bytes that are no UTF-8 are kept. Raises ConfigError."""
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path} is not a file")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > MOST_BYTES or b"\0" in content:
        raise ConfigError(f"{path} is not an ini file: it is {'too large' if len(content) > MOST_BYTES else 'binary'}")
    return content.decode(errors="surrogateescape")


def _replace_magic(value: str, path: Path, section: str, first: Path) -> str:
    """Replace the variables that stand for the file: the measured file is another one. Capitals: the first file. `%%`
    stays, and so `%%d` too."""

    def substitute(match: re.Match[str]) -> str:
        file = Path(os.path.abspath(first if match[1].isupper() else path))
        if match[1] == "%":
            return match[0]
        if match[1].isdigit():
            return dict(enumerate(file.parts[1:-1])).get(int(match[1]), "").replace("%", "%%")
        found = {
            "o": str(file),
            "p": str(file),
            "s": file.name,
            "d": f"{file.parent}/",
            "e": file.suffix.removeprefix("."),
            "n": file.stem,
            "c": file.parent.name,
            "x": "" if section == ini_syntax.DEFAULT_SECTION else section,
        }
        return found[match[1].lower()].replace("%", "%%")  # uWSGI reads the measured file, and takes them back

    return _MAGIC.sub(substitute, value)


_OPTION = re.compile(r"([ \t]*)([^=\s;#\[][^=]*?)(?:([ \t]*=[ \t]*)(.*?))?([ \t]*\r?)")


def edit_ini(ini: Ini, chosen: Variant) -> str:
    """The text of the given file with the chosen variant."""
    lines = ini.text.split("\n")
    for key, value in _list_values(ini, chosen).items():
        _set(lines, ini.section, key, value)
    return "\n".join(lines)


def make_diff(before: str, after: str, path: Path, context: int = 3) -> str:
    """A unified diff, as `patch` reads it; empty if nothing changes."""
    lines = difflib.unified_diff(
        _split(before), _split(after), f"a/{path.name}", f"b/{path.name}", n=context, lineterm="\n"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _split(text: str) -> list[str]:
    # Not splitlines(): only \n ends a line of a diff.
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _list_values(ini: Ini, chosen: Variant) -> Mapping[str, str | None]:
    """The options that change, with their values; None: the option is left out, or off."""
    present, wanted = ini.present, dict[str, str | None]()
    if chosen.setting.processes != present.setting.processes:
        wanted["processes"] = str(chosen.setting.processes)
    if chosen.setting.threads != present.setting.threads:
        wanted["threads"] = str(chosen.setting.threads)
    if chosen.thunder_lock != present.thunder_lock:
        wanted["thunder-lock"] = "true" if chosen.thunder_lock else None
    if chosen.cheaper != present.cheaper:
        wanted["cheaper"] = None if chosen.cheaper is None else str(chosen.cheaper)
    if chosen.listen != present.listen:
        wanted["listen"] = str(chosen.listen or DEFAULT_LISTEN)
    return wanted


def _list_options(lines: list[str], wanted: str) -> Iterator[tuple[int, re.Match[str]]]:
    """The options of a section, by the index of their line."""
    for option in list_options("\n".join(lines), wanted):
        if match := _OPTION.fullmatch(lines[option.number - 1]):
            yield option.number - 1, match


def _set(lines: list[str], section: str, key: str, value: str | None) -> None:
    """Change the last line of an option, which is the one that counts, or add one."""
    names = ("processes", "workers") if key == "processes" else (key,)
    found = [(number, match) for number, match in _list_options(lines, section) if match[2] in names]
    if found and value is not None:
        number, match = found[-1]
        lines[number] = f"{match[1]}{match[2]}{match[3] or ' = '}{value}{match[5]}"
    elif found:
        for number, _ in reversed(found):
            del lines[number]
    elif value is not None:
        _insert(lines, section, [f"{key} = {value}"])
    elif key in ("thunder-lock", "cheaper"):  # it is on in an included file
        _insert(lines, section, [f"{key} = {'0' if key == 'cheaper' else 'false'}"])


def _insert(lines: list[str], section: str, added: list[str]) -> None:
    """Add lines after the last option that sets processes or threads, else after the last option of the section."""
    options = list(_list_options(lines, section))
    near = [number for number, match in options if match[2] in ("processes", "workers", "threads")]
    last = near[-1] if near else options[-1][0] if options else len(lines) - 1
    ending = "\r" if lines[last].endswith("\r") else ""
    lines[last + 1 : last + 1] = [f"{line}{ending}" for line in added]
