"""Reads the options of a uWSGI master from its command line and its ini files, as far as they are visible.

The syntax of those files is here for all who read or change one.

uWSGI applies the options in order, and the last value of an option wins. `ini` and `include` insert a file's options at
their own position; a file given without an option comes after the whole command line, and `inherit` after that. File
names are relative to the directory in which uWSGI started, also within other files. Each rule of the syntax was tried
with uWSGI 2.0.31 (`--show-config`).

If something cannot be followed (another format, an unreadable file, `%(name)` in a file's name), every earlier value is
doubtful and forgotten; later values are certain. If only one option is uncertain (a placeholder in its value, a
condition or a loop around it), only that one is forgotten.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import fields

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.record import Options, spell_option

DEFAULT_SECTION = "uwsgi"

LOADS = ("ini", "include", "inherit")
"""Options that load another ini file: at their own place, but `inherit` after all other options."""

OTHER_FORMATS = (
    *("xml", "xmlconfig", "yaml", "yml", "json", "js", "config", "ini-paste", "ini-paste-logged", "config-py"),
)
"""Options that load a file in another format."""

_BLANK = " \t\r"
_CONDITIONS = re.compile(r"if-.+|for|for-.+|if(env|exists|plugin|dir)")
_ENDS = ("end", "endif", "end-if", "endfor", "end-for")
_OFF = ("false", "off", "no", "0")


class IniOption(NamedTuple):
    """An option as it is written, and the number of its line, from 1."""

    number: int
    key: str
    value: str


def list_options(text: str, section: str) -> Iterator[IniOption]:
    """The options in all parts of a section. Comments are lines of their own, no line continues another, and a line
    without `=` is an option without a value."""
    present = None
    for number, line in enumerate((line.strip(_BLANK) for line in text.split("\n")), 1):
        if line.startswith("["):
            present = line[1:-1]
        elif present == section and line and line[0] not in ";#":
            key, _, value = line.partition("=")
            yield IniOption(number, key.rstrip(_BLANK), value.lstrip(_BLANK))


def resolve_set(key: str, value: str) -> tuple[str, str]:
    """`set = key=value` sets the option `key`."""
    while key == "set" and "=" in value:
        key, _, value = value.partition("=")
    return key, value


def begins_block(key: str) -> bool:
    """Whether an option begins a condition or a loop."""
    return _CONDITIONS.fullmatch(key) is not None


def ends_block(key: str) -> bool:
    """Whether an option ends all conditions and loops: they have no depth."""
    return key in _ENDS


def split_name(name: str) -> tuple[str, str]:
    """The file and the section of a name such as `file:section`. `:section` has no file: it is the one read last."""
    file, colon, section = name.rpartition(":")
    return (file, section or DEFAULT_SECTION) if colon else (name, DEFAULT_SECTION)


def is_on(value: str) -> bool:
    return value.lower() not in _OFF


MOST_BYTES = 256 << 10
_MOST_LINKS = 40  # the kernel's own limit: path_resolution(7)
_MOST_DEPTH = 64  # directories, each of which takes a descriptor


class MasterFiles:
    """The files of one process. newest: the latest change of any file read so far, in epoch seconds.

    Both directories need the permission to trace the process (see `procfs.read_socket_inodes`). The files are
    untrusted, and may be on a file system that never answers, so those of another process are read by `aside`. Names
    are resolved step by step from descriptors of directories, so that no link leads out of the process's root
    directory, whatever is replaced meanwhile. Only regular files are opened, and one bound applies to all of a process
    together.
    """

    def __init__(self, pid: int, *, proc: Path = Path("/proc")) -> None:
        self._process = proc / str(pid)
        self._bytes_left = MOST_BYTES
        self.newest = 0.0

    def is_working_directory(self, path: str) -> bool:
        """Whether an absolute path is that of the working directory; False if the working directory is hidden."""
        try:
            return os.readlink(self._process / "cwd") == (path.rstrip("/") or "/")
        except OSError:
            return False

    def read(self, name: str) -> str:
        """Read a file by the name that the process would use. Raises OSError, for example if all files together are
        longer than MOST_BYTES; ValueError for an impossible name."""
        with self._find(name) as found:  # a device or a FIFO is not opened even for a moment
            if not os.fstat(found).st_size:  # as of /proc/kmsg: who reads it takes its lines away from others
                raise OSError("empty, or not a regular file")
            file = procfs.open_again(found)
        with open(file, "rb") as opened:
            changed, content = os.fstat(file).st_ctime, opened.read(self._bytes_left + 1)
        if len(content) > self._bytes_left:
            raise OSError(f"longer than {self._bytes_left} bytes")
        self._bytes_left -= len(content)
        self.newest = max(self.newest, changed)
        return content.decode(errors="replace")

    def identify(self, name: str) -> tuple[int, int]:
        """The device and inode of a file, the same under each of its names. Raises as `read`."""
        with self._find(name) as found:
            status = os.fstat(found)
        return status.st_dev, status.st_ino

    @contextmanager
    def _find(self, name: str) -> Iterator[int]:
        """A descriptor for a file of the process, which permits no more than fstat(2). Links are resolved within the
        process's root directory, which may be that of a container. Raises OSError."""
        path = os.path.join(os.readlink(self._process / "cwd"), name)
        with ExitStack() as opened:
            folders = [_open_path(self._process / "root", os.O_DIRECTORY, None, opened)]
            left, links = path.split("/")[::-1], 0
            while left:
                part = left.pop()
                if part in ("", "."):
                    continue
                if part == "..":
                    folders = folders[: max(1, len(folders) - 1)]
                    continue
                here = _open_path(part, os.O_NOFOLLOW, folders[-1], opened)
                if not stat.S_ISLNK(os.fstat(here).st_mode):
                    folders.append(here)
                    if len(folders) > _MOST_DEPTH:
                        raise OSError(f"{path} is in too many directories")
                    continue
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(f"{path} has too many symbolic links")
                target = os.readlink("", dir_fd=here)
                folders = folders[:1] if target.startswith("/") else folders
                left += target.split("/")[::-1]
            yield folders[-1]


def _open_path(path: str | Path, flags: int, folder: int | None, opened: ExitStack) -> int:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | flags, dir_fd=folder)
    opened.callback(os.close, descriptor)
    return descriptor


APPLICATIONS = frozenset(("module", "wsgi", "wsgi-file", "file", "mount", "paste", "pecan", "psgi", "rack"))
"""Options that name an application. uWSGI loads it and then lists it in its stats."""

LOGS = frozenset(("logto", "logto2", "daemonize", "daemonize2", "logger"))
"""Options that name the file of a log. `logger` names a kind before it, such as `file:`. Not `req-logger`: its file has
the lines of requests, and none of uWSGI's messages (tried on 2.0.31)."""

PLAIN_NAME = re.compile(r"[\w./:@+=-]{1,200}", re.ASCII)
"""The names of modules, files and mount points that are safe to show."""

Value = int | bool | str | tuple[str, ...]

KINDS: Mapping[str, str] = {
    option.name: str(option.type).removesuffix(" | None") for option in fields(Options) if option.default is None
}
"""The type of a field's values, by field."""

NAMES: Mapping[str, str] = {field_name: spell_option(field_name) for field_name in KINDS}
"""uWSGI's name of the option, by field."""

FIELDS: Mapping[str, str] = {
    **{option: field_name for field_name, option in NAMES.items()},
    "workers": "processes",
    "stats-server": "stats",
    "emperor-stats-server": "emperor_stats",
    **dict.fromkeys(("thread-stacksize", "thread-stack-size", "threads-stack-size"), "threads_stacksize"),
    **dict.fromkeys(("zerg-server", "zerg-pool"), "zerg"),
}
"""The field of an option's value, by the option's name in all its spellings."""

_SHOWN: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("emperor", "http11_socket", "zerg"), re.compile(r"(?!)")),
    "chmod_socket": re.compile(r"[0-7]{0,4}", re.ASCII),
    "http": re.compile(r"[\w.:*\[\]-]{0,100}:[0-9]{1,5}", re.ASCII),
    "http_socket": re.compile(r"[\w.:*\[\]-]{0,100}:[0-9]{1,5}", re.ASCII),
}
"""What a text has to look like to be kept, by field: another one counts, but is kept as `?`."""

_NUMBER = re.compile(r"\s*([+-]?[0-9]{1,9}|)(?![0-9])", re.ASCII)
_BYTES = re.compile(r"\s*([0-9]{1,15}|)(?![0-9])", re.ASCII)  # uWSGI has 64 bits for these
_LONGEST_TEXT = 200
_MOST_TEXTS = 64


def parse_value(name: str, text: str, before: object = None) -> Value | None:
    """The value of a field as uWSGI parses it; None if that is not certain.

    For a number, uWSGI takes the digits at the beginning of the text, or 0 (atoi(3)). A flag is off for `false`, `off`,
    `no` and `0`, in upper or lower case, and on for anything else. `before`: the earlier values, for an option that
    may be given several times.
    """
    kind = KINDS[name]
    if kind == "bool":
        return is_on(text)
    if kind == "int":
        if name == "asyncio" and not text:  # uWSGI then uses a default of its own
            return None
        number = (_BYTES if name == "cheaper_rss_limit_soft" else _NUMBER).match(text)
        return int(number[1] or 0) if number else None
    if len(text) > _LONGEST_TEXT:
        return None
    if kind == "str":
        return text
    so_far = before if isinstance(before, tuple) else ()
    if name in _SHOWN and not _SHOWN[name].fullmatch(text):
        text = "?"
    return (*so_far, text) if len(so_far) < _MOST_TEXTS else None


COMMAND_LINE = "command line"
MOST_FILES = 10
MOST_DEPTH = 5

_LONGEST_LINE = 4096
_PLACEHOLDER = re.compile(r"%|\$\(|@\(")
_CHANGES_DIRECTORY = ("chdir", "chdir2")
_CHANGES_ROOT = ("chroot", "pivot-root")
_NAMES_FILES = ("touch-", "paste", "if-")
"""Prefixes of options whose value may be the name of a configuration file that they do not load."""

_SUFFIXES = (".ini", ".xml", ".yaml", ".yml", ".json", ".js")

# For parsing uWSGI's command line as getopt(3) does: the letters of relevant options, and all letters with a value.
_WITH_LETTER = """
    p:processes w:module t:harakiri l:listen R:max-requests z:socket-timeout M:master T:enable-threads
    L:disable-logging i:single-interpreter b:buffer-size S:set x:xml y:yaml d:daemonize
"""
_LETTERS = dict(pair.split(":") for pair in _WITH_LETTER.split())
_LETTERS_WITH_VALUE = frozenset("sptxSdlvbRzAQywJHO")
_VALUE_OPTIONAL = ("need-app", "asyncio", "chmod-socket", "http-keepalive")  # only as --option=value
_LOG_FILE = re.compile(r"(?:(?:\w{1,40} )?file:(?:logfile=)?)?(/[^,:]*)(?:,.*)?")
_MOST_LOGS = 5
_READ = frozenset((*FIELDS, *LOGS, *LOADS, *OTHER_FORMATS, *_CHANGES_DIRECTORY, *_CHANGES_ROOT, "set"))
_NO_ABBREVIATIONS = ("cheap", "chmod", "lazy", "reload", "socket", "pivot", "st")
"""uWSGI options whose name is a prefix of one in `_READ`. Any other prefix may be an abbreviation of it."""

_WORKER_RELOADS = ("touch-chain-reload", "touch-workers-reload", "master-fifo", "lazy")
"""Options with which the workers can be reloaded, one after another or at once, while the master stays."""


_UNLOGS = ("disable-log", "req-logger", "logger-req", "logformat", "log-format", "log-encoder", "log-req-", "log-route")
"""How the options begin with which uWSGI's log may lack the line of a request, or has it in another form."""

_END_WORKERS = (
    *("reload-on-exception", "reload-on-exception-type", "reload-on-exception-value", "reload-on-exception-repr"),
    *("reload-on-uss", "reload-on-pss", "evil-reload-on-as"),
)
"""Options that end workers while uWSGI runs, of which no value is kept (core/uwsgi.c of uWSGI 2.0.31)."""


def read_options(pid: int, *, oldest_worker: float | None = None, proc: Path = Path("/proc")) -> Options:
    """The options of the uWSGI master whose proven PID is `pid`. oldest_worker: the spawn time of its oldest worker, in
    whole epoch seconds as in uWSGI's stats. Never raises, but may never end: a question for `aside`."""
    try:
        text = procfs.read_file(proc / str(pid) / "cmdline", most=MOST_BYTES).decode(errors="replace")
    except OSError:
        return Options()
    words = _words_of_uwsgi(text.removesuffix("\0").split("\0"))
    if not words:  # all options are in the environment, or procname has overwritten the command line
        return Options()
    files = MasterFiles(pid, proc=proc)
    reading = _Reading(files)
    reading.take_command_line(words)
    return reading.result(changed=oldest_worker is not None and files.newest >= oldest_worker + 1)


def read_file_options(name: str) -> Options:
    """The options that `uwsgi --ini NAME` would have, started in the current directory. Never raises."""
    reading = _Reading(MasterFiles(os.getpid()))
    reading.take_command_line(["--ini", name])
    reading._relative = False  # to this directory, whatever its `chdir`
    return reading.result(changed=False)


def _words_of_uwsgi(words: list[str]) -> list[str]:
    """The words after the program's name; with the pyuwsgi wheel, the program is a Python script."""
    name = words[0].rpartition("/")[2]
    if name.startswith(("python", "pypy")):
        return words[2:] if len(words) > 1 and "uwsgi" in words[1].rpartition("/")[2] else []
    return words[1:]


_PURGE = {"purge_lru", "lru"}
"""Options of a cache with which a full one drops the item that was used least recently (core/cache.c)."""


class _Reading:
    """Collects options in uWSGI's order, and keeps those that are known so far."""

    def __init__(self, files: MasterFiles) -> None:
        self._files = files
        self._values: dict[str, Value] = {}
        self._source: dict[str, str] = {}
        self._complete = True
        self._names_application = self._can_reload_workers = self._unlogs = False
        self._application = ""
        self._names: dict[str, list[str]] = defaultdict(list)  # by field of `Options`
        self._conditional = False
        self._loaded = 0
        self._latest = ""
        self._last: deque[str] = deque()
        self._relative = self._moved = self._moved_root = self._doubtful = False

    def result(self, changed: bool) -> Options:
        """The options known at the end; none if one of the files may differ from the one that uWSGI read."""
        if self._doubtful or (self._loaded and self._moved_root):
            return Options()
        if self._relative and self._moved:
            return Options(configuration_files=tuple(self._names["configuration_files"]))
        self._names["log_files"] = self._names["log_files"][-_MOST_LOGS:]
        names = {name: tuple(each) for name, each in self._names.items()}
        known: dict[str, object] = {**self._values, **names, "names_application": self._names_application}
        return Options(
            **known,  # type: ignore[arg-type]  # by field, each of its type
            can_reload_workers=self._can_reload_workers,
            logs_requests=self._complete and not self._unlogs,
            application=self._application,
            source=self._source,
            complete=self._complete,
            changed=changed,
        )

    def take_command_line(self, words: list[str]) -> None:
        """Apply the words after the program's name, then the files that uWSGI reads at the end."""
        left = words[::-1]
        while left:
            word = left.pop()
            if word == "--":
                self._last.extend(left[::-1])
                break
            if word.startswith("--"):
                self._take_long(word[2:], left)
            elif word.startswith("-") and word != "-":
                self._take_letters(word[1:], left)
            else:
                self._last.append(word)
        # Only configuration files are loaded; other words (an application, [a comment]) set nothing.
        while self._last:
            name = self._last.popleft()
            if name.endswith(_SUFFIXES) or "://" in name:
                self._name_configuration_file(name)
                self._load(name, needs_suffix=True)

    def _take_long(self, option: str, left: list[str]) -> None:
        key, equals, value = option.partition("=")
        if not equals and key in _READ:
            has_value = FIELDS.get(key) is None or KINDS[FIELDS[key]] != "bool"
            value = left.pop() if left and has_value and key not in _VALUE_OPTIONAL else ""
        elif key not in _READ:
            if key not in _NO_ABBREVIATIONS and any(read.startswith(key) for read in _READ):
                self._forget_everything()
            if not equals and left and not left[-1].startswith("-"):
                # The next word is the option's value, or a separate word if the option takes none. The difference
                # matters only for a configuration file.
                value = left.pop()
                self._doubtful |= value.endswith(_SUFFIXES) and not key.startswith(_NAMES_FILES)
        self._take(key, value, COMMAND_LINE)

    def _take_letters(self, letters: str, left: list[str]) -> None:
        for place, letter in enumerate(letters, 1):
            if letter in _LETTERS_WITH_VALUE:
                value = letters[place:] or (left.pop() if left else "")
                self._take(_LETTERS.get(letter, ""), value, COMMAND_LINE)
                return
            self._take(_LETTERS.get(letter, ""), "", COMMAND_LINE)

    def _take(self, key: str, value: str, source: str, depth: int = 0) -> None:
        """Apply one option. Nothing of an irrelevant option is kept."""
        value = value[:_LONGEST_LINE]
        key, value = resolve_set(key, value)
        self._keep_names(key, value)
        self._can_reload_workers |= key in _WORKER_RELOADS and not self._conditional
        self._unlogs |= key.startswith((*_UNLOGS, "log-drain", "log-filter")) or "donotlog" in value
        if key in _END_WORKERS and not self._conditional and key not in self._names["ends_workers"]:
            self._names["ends_workers"].append(key)
        if source == COMMAND_LINE and key in (*LOADS, *OTHER_FORMATS):
            self._name_configuration_file(value)
        name = FIELDS.get(key)
        if name:
            self._keep(name, value, source)
        elif ends_block(key):
            self._conditional = False
        elif begins_block(key):
            self._conditional, self._complete = True, False
        elif key in LOADS and not self._conditional:
            if key == "inherit":
                self._last.append(value)
            else:
                self._load(value, needs_suffix=key == "include", within=source, depth=depth + 1)
        elif key in (*LOADS, *OTHER_FORMATS) or _PLACEHOLDER.search(key):
            self._forget_everything()
        elif key in _CHANGES_DIRECTORY:
            self._moved |= self._conditional or not self._files.is_working_directory(value)
        elif key in _CHANGES_ROOT:
            self._moved_root = True

    def _keep_names(self, key: str, value: str) -> None:
        """Keep the names in the value of an option that is no field."""
        if key in APPLICATIONS:
            is_plain = PLAIN_NAME.fullmatch(value) is not None and not self._conditional
            self._application = value if is_plain else ""
            self._names_application |= not self._conditional
        elif key == "cache2":  # the name of one that makes room by itself, and nothing else of its options
            options = dict(option.strip().partition("=")[::2] for option in value.split(","))
            if options.keys() & _PURGE and PLAIN_NAME.fullmatch(options.get("name", "")):
                self._names["purging_caches"].append(options["name"])
        elif key in LOGS and not self._conditional:
            # Not a relative path, nor the address of a log server, which may hold a secret.
            found = _LOG_FILE.fullmatch(value.strip())
            if found and PLAIN_NAME.fullmatch(found[1]):
                self._names["log_files"].append(found[1])

    def _name_configuration_file(self, value: str) -> None:
        """Keep the name, unless it is an address or a command, which may hold a secret."""
        is_plain = PLAIN_NAME.fullmatch(value) and "://" not in value
        self._names["configuration_files"].append(value if is_plain else "")

    def _keep(self, name: str, text: str, source: str) -> None:
        certain = not self._conditional and not _PLACEHOLDER.search(text)
        value = parse_value(name, text, self._values.get(name)) if certain else None
        if value is None:
            self._values.pop(name, None)
            self._source.pop(name, None)
            self._complete = False
        else:
            self._values[name], self._source[name] = value, source

    def _forget_everything(self) -> None:
        self._values, self._source, self._complete, self._application = {}, {}, False, ""

    def _load(self, name: str, *, needs_suffix: bool, within: str = COMMAND_LINE, depth: int = 1) -> None:
        """Apply the options in a section of an ini file."""
        file, section = split_name(name)
        path = file or self._latest
        self._loaded += 1
        try:
            too_much = self._loaded > MOST_FILES or depth > MOST_DEPTH
            if too_much or not path or "://" in name or _PLACEHOLDER.search(name):
                raise OSError
            if needs_suffix and not name.endswith(".ini"):
                raise OSError
            text = self._files.read(path)
        except (OSError, ValueError):
            self._forget_everything()
            return
        self._latest = path
        self._relative |= not path.startswith("/")
        for option in list_options(text, section):
            self._take(option.key, option.value, path, depth)
