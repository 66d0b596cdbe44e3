"""The options of uWSGI that advice rests on. No other option is kept: a configuration may hold secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one uWSGI master; None: not set, or not known.

    Times are in seconds, `reload_on_*` in megabytes, as uWSGI takes them. `async_cores` is the option `async`;
    `workers` and `processes` are one option. source: by field, "command line" or the file's name as uWSGI was given it.
    names_application: whether one of `APPLICATIONS` is set, whatever its value, as far as is known. application: what
    it names, a module or a file; configuration_file: the first one that the command line names, as it is written there.
    Empty: not known, or not a plain name.
    complete: every option that was set outside of the environment (`UWSGI_*`, which is never read) is known, so None
    means that uWSGI's default holds. changed: a file was changed after a worker began that still runs, so uWSGI uses
    what the file said before.
    """

    harakiri: int | None = None
    listen: int | None = None
    max_requests: int | None = None
    max_requests_delta: int | None = None
    max_worker_lifetime: int | None = None
    reload_on_rss: int | None = None
    reload_on_as: int | None = None
    evil_reload_on_rss: int | None = None
    need_app: bool | None = None
    single_interpreter: bool | None = None
    lazy_apps: bool | None = None
    thunder_lock: bool | None = None
    cheaper: int | None = None
    cheaper_initial: int | None = None
    cheaper_step: int | None = None
    cheaper_overload: int | None = None
    cheaper_algo: str | None = None
    processes: int | None = None
    threads: int | None = None
    enable_threads: bool | None = None
    async_cores: int | None = None
    gevent: int | None = None
    asyncio: int | None = None
    ugreen: bool | None = None
    map_socket: tuple[str, ...] | None = None
    post_buffering: int | None = None
    socket_timeout: int | None = None
    http_timeout: int | None = None
    master: bool | None = None
    die_on_term: bool | None = None
    worker_reload_mercy: int | None = None
    cpu_affinity: int | None = None
    stats: str | None = None
    memory_report: bool | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    names_application: bool = False
    application: str = ""
    configuration_file: str = ""
    complete: bool = False
    changed: bool = False


APPLICATIONS = frozenset(("module", "wsgi", "wsgi-file", "file", "mount", "paste", "pecan", "psgi", "rack"))
"""Options that name an application for uWSGI to load, which it then lists in its stats."""

PLAIN_NAME = re.compile(r"[\w./:@+=-]{1,200}", re.ASCII)
"""What a module, a file or a mount point is called where it may be shown."""

Value = int | bool | str | tuple[str, ...]

KINDS: Mapping[str, str] = {
    option.name: str(option.type).removesuffix(" | None") for option in fields(Options) if option.default is None
}
"""By field: the type of its values."""

NAMES: Mapping[str, str] = {
    field_name: "async" if field_name == "async_cores" else field_name.replace("_", "-") for field_name in KINDS
}
"""By field: the option as uWSGI spells it."""

FIELDS: Mapping[str, str] = {
    **{option: field_name for field_name, option in NAMES.items()},
    "workers": "processes",
    "stats-server": "stats",
}
"""By option, in all its spellings: the field that keeps its value."""

_NUMBER = re.compile(r"\s*([+-]?[0-9]{1,9}|)(?![0-9])", re.ASCII)
_LONGEST_TEXT = 200
_MOST_TEXTS = 64


def parse_value(name: str, text: str, before: object = None) -> Value | None:
    """The value of a field as uWSGI understands it; None where that is not certain.

    A number is what it begins with, and 0 where it begins with none (atoi(3)); a flag is off at `false`, `off`, `no`
    and `0`, in any case of letters, and on at any other value. `before`: the value so far, for an option that adds up.
    """
    kind = KINDS[name]
    if kind == "bool":
        return text.lower() not in ("false", "off", "no", "0")
    if kind == "int":
        if name == "asyncio" and not text:  # uWSGI has a number of its own for it
            return None
        number = _NUMBER.match(text)
        return int(number[1] or 0) if number else None
    if len(text) > _LONGEST_TEXT:
        return None
    if kind == "str":
        return text
    so_far = before if isinstance(before, tuple) else ()
    return (*so_far, text) if len(so_far) < _MOST_TEXTS else None
