"""Reads a uWSGI ini file for `tune`, and edits it.

A line is measured only if its option is known to load the application or to decide how fast it is. So a copied file
starts no cron, daemon, mule, spooler, hook or log file. The names are those of uWSGI 2.0 (core/uwsgi.c and plugins).
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.kernel import options as ini_syntax
from uwsgi_headroom.kernel.options import APPLICATIONS, DEFAULT_SECTION, is_on

_KEPT = re.compile(
    r"""
    module|wsgi|wsgi-file|file|callable|mount|manage-script-name|paste|paste-logger|pecan|wsgi-.+|need-app|optimize|
    no-default-app|pythonpath|python-path|pp|pymodule-alias|post-pymodule-alias|pyargv|(shared-)?(py|python-)?import|
    home|virtualenv|venv|pyhome|env|unenv|envdirs?|early-envdirs?|chdir2?|umask|set-ph|set-placeholder|pep3333-.+|
    plugins?|need-plugins?|plugins?-dir|py-call-.+|single-interpreter|catch-exceptions|lazy|lazy-apps?|master|
    enable-threads|no-threads-wait|threads?-stack-?size|stacksize|harakiri.*|max-requests.*|(min|max)-worker-.+|
    (evil-)?reload-on-(as|rss|exception.*)|(worker-)?reload-mercy|limit-as|max-fd|cpu-affinity|vacuum|
    buffer-size|post-buffering.*|body-read-warning|limit-post|socket-timeout|so-keepalive|tcp-nodelay|listen|
    (socket|so)-(snd|rcv)buf|ignore-sigpipe|ignore-write-errors|disable-write-exception|write-errors-.+|thunder-lock|
    use-poll|lock-engine|locks|offload-threads?|static-.+|check-static.*|fileserve-mode|file-serve-mode|mime-?file|
    route.*|(error|final|response)-route.*|(add|del|collect|pull)-header|queue|queue-blocksize|cache2?|caches|
    cache-blocksize|disable-logging|threaded-logger|log-(4xx|5xx|slow|big|zero|date|micros|master|format.*)|
    log-?format.*|logdate|log-x-forwarded-for|memory-report|enable-metrics|never-swap|close-on-exec2?
    """,
    re.VERBOSE,
)

_SETTING = re.compile("processes|workers|threads|cheaper.*")
"""What is set otherwise in each run: all processes of a `cheaper` server run, as they do at its peak."""

_CACHE_OUTSIDE = re.compile(r",?\b(?:store|store_sync|store_delete|sync|nodes|node|udp|udp_servers)=[^,]*")
_ASYNC = ("async", "gevent", "asyncio", "ugreen", "gevent-early-monkey-patch", "tornado", "greenlet", "coroae", "loop")


def is_kept(option: str) -> bool:
    return bool(_KEPT.fullmatch(option) or ini_syntax.begins_block(option) or ini_syntax.ends_block(option))


class Ini(Struct, frozen=True, kw_only=True):
    """text: of the file itself. kept: the options that are measured, with their values; left_out: the names of the
    others. cheaper: the value of that option, else 0."""

    path: Path
    section: str
    text: str
    kept: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...]
    present: Setting
    cheaper: int

    def render(self) -> str:
        # A condition without an end would swallow the options of uWSGI's command line, which follow.
        lines = ["[uwsgi]", *(f"{key} = {value}" for key, value in self.kept), "endif = ", ""]
        return "\n".join(lines)


def read_ini(name: str) -> Ini:
    """Read an ini file, perhaps of a section (`shop.ini:staging`), and those that it includes. Raises ConfigError."""
    file, section = (name, DEFAULT_SECTION) if Path(name).exists() else ini_syntax.split_name(name)
    path = Path(file)
    lines = list(_list_lines(path, section, path, [path]))
    for key, value, _ in lines:
        if (key in _ASYNC and is_on(value)) or key == "map-socket":
            raise ConfigError(f"{path}: tune is for processes and threads that share their requests, not for {key}")
    if not any(key in APPLICATIONS for key, _, _ in lines):
        raise ConfigError(f"{path} names no application; for an emperor, give the ini file of one vassal")
    dropped = {key: value for key, value, _ in lines if not is_kept(key)}
    numbers = {"processes": 1, "threads": 1, "cheaper": 0}
    for key, value, is_conditional in lines:
        name = "processes" if key == "workers" else key
        if name in numbers:
            if is_conditional or not re.fullmatch(r"[1-9]\d{0,3}", value):
                raise ConfigError(f"{path}: tune needs the number of {name}, not {value!r} or a condition: write it")
            numbers[name] = int(value)
    return Ini(
        path=path,
        section=section,
        text=_read_text(path),
        kept=tuple((key, _rewrite(key, value, dropped)) for key, value, _ in lines if is_kept(key)),
        left_out=tuple(key for key in dropped if not _SETTING.fullmatch(key)),
        present=Setting(numbers["processes"], numbers["threads"]),
        cheaper=numbers["cheaper"],
    )


def _rewrite(key: str, value: str, dropped: Mapping[str, str]) -> str:
    """A cache without its file and other servers; and `%(option)` filled in, if that option is not measured."""
    value = _CACHE_OUTSIDE.sub("", value).strip(",") if key == "cache2" else value
    return re.sub(r"%\(([^)]+)\)", lambda match: dropped.get(match[1], match[0]), value)


_MOST_BYTES, _MOST_FILES = 256 << 10, 20
_VARIABLE = re.compile(r"%\(|\$\(|@\(")
_MAGIC = re.compile(r"%([%oOpPsSdDeEnNcCxX0-9])")


def _list_lines(
    path: Path, section: str, first: Path, read: list[Path], is_conditional: bool = False
) -> Iterator[tuple[str, str, bool]]:
    """The options in a section of a file, with those of included files in their place, and inherited ones last; and
    whether each is within a condition or a loop. read: all files so far; the last has the sections without a file."""
    if len(read) > _MOST_FILES:
        raise ConfigError(f"{first} includes more than {_MOST_FILES} files")
    inherited, options = list[str](), list(ini_syntax.list_options(_read_text(path), section))
    if not options:
        raise ConfigError(f"{path} has no options in a section [{section}]: tune reads ini files only")

    def include(name: str, within: bool) -> Iterator[tuple[str, str, bool]]:
        file, other = ini_syntax.split_name(_replace_magic(name, path, section, first).replace("%%", "%"))
        if "://" in name or _VARIABLE.search(name):
            raise ConfigError(f"{path}: tune cannot follow {name}: give an ini file without it")
        if file and within and not Path(file).exists():
            return  # the condition is false, such as `if-exists`
        read.append(Path(file) if file else read[-1])
        yield from _list_lines(read[-1], other, first, read, within)

    within = is_conditional
    for number, *written in options:
        key, value = ini_syntax.resolve_set(*written)
        within = is_conditional or (not ini_syntax.ends_block(key) and (within or ini_syntax.begins_block(key)))
        if key == "inherit":
            inherited.append(value)
        elif key in ini_syntax.OTHER_FORMATS:
            raise ConfigError(f"{path}, line {number}: tune reads ini files only, and {key} loads another")
        elif key in ini_syntax.LOADS:
            yield from include(value, within)
        else:
            yield key, _replace_magic(value, path, section, first), within
    for name in inherited:
        yield from include(name, within=False)


def _read_text(path: Path) -> str:
    """The text of an ini file; bytes that are no UTF-8 are kept. Raises ConfigError."""
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path} is not a file")
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > _MOST_BYTES or b"\0" in content:
        raise ConfigError(f"{path} is not an ini file: it is too large, or binary")
    return content.decode(errors="surrogateescape")


def _replace_magic(value: str, path: Path, section: str, first: Path) -> str:
    """Replace the variables that stand for the file, in capitals the first one: the measured file is another one."""

    def substitute(match: re.Match[str]) -> str:
        file = Path(os.path.abspath(first if match[1].isupper() else path))
        found = {str(number): part for number, part in enumerate(file.parts[1:-1])}
        found |= {"o": str(file), "p": str(file), "s": file.name, "d": f"{file.parent}/", "n": file.stem}
        found |= {"e": file.suffix[1:], "c": file.parent.name, "x": "" if section == DEFAULT_SECTION else section}
        # `%%` stays: uWSGI reads the measured file, and takes two for one.
        return match[0] if match[1] == "%" else found.get(match[1].lower(), "").replace("%", "%%")

    return _MAGIC.sub(substitute, value)


_OPTION = re.compile(r"([ \t]*)([^=\s;#\[][^=]*?)(?:([ \t]*=[ \t]*)(.*?))?([ \t]*\r?)")


def edit_ini(ini: Ini, chosen: Setting) -> str:
    """The text of the file with the chosen setting, and every other line as it was."""
    lines = ini.text.split("\n")
    for key in ("processes", "threads"):
        if getattr(chosen, key) != getattr(ini.present, key):
            _set(lines, ini.section, key, getattr(chosen, key))
    return "\n".join(lines)


def _set(lines: list[str], section: str, key: str, value: int) -> None:
    """Change the last line of an option, which counts; or add one after the rest of the setting, or of the section."""
    numbers = [option.number - 1 for option in ini_syntax.list_options("\n".join(lines), section)]
    options = [(number, match) for number in numbers if (match := _OPTION.fullmatch(lines[number]))]
    names = ("processes", "workers") if key == "processes" else (key,)
    if found := [(number, match) for number, match in options if match[2] in names]:
        number, match = found[-1]
        lines[number] = f"{match[1]}{match[2]}{match[3] or ' = '}{value}{match[5]}"
        return
    near = [number for number, match in options if match[2] in ("processes", "workers", "threads")]
    last = near[-1] if near else options[-1][0]
    lines.insert(last + 1, f"{key} = {value}" + "\r" * lines[last].endswith("\r"))


def make_diff(before: str, after: str, path: Path) -> str:
    """A unified diff, as `patch` reads it: only \\n ends a line."""
    old, new = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (before, after))
    lines = difflib.unified_diff(old, new, f"a/{path.name}", f"b/{path.name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
