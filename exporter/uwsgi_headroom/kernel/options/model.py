"""The uWSGI options that advice needs. No other option is kept: a configuration may hold secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one uWSGI master; None for an option that is not set or not known.

    Times are in seconds and `reload_on_*` in megabytes, as in uWSGI. `async_cores` is the option `async`; `workers`
    and `processes` are one option.

    source: "command line" or the name of the file as uWSGI got it, by field.
    names_application: whether one of `APPLICATIONS` is known to be set, to any value.
    can_reload_workers: whether an option is known to be set with which the workers can be reloaded while the master
        stays.
    application: the module or file that the option names; empty if unknown or not a plain name.
    configuration_file: the first one on the command line, as written there; empty if unknown or not a plain name.
    complete: whether every option outside of the environment (`UWSGI_*` is never read) is known. If so, None means that
        uWSGI's default applies.
    changed: whether a file was changed after the start of a worker that still runs, so that uWSGI still uses the old
        options.
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
    can_reload_workers: bool = False
    application: str = ""
    configuration_file: str = ""
    complete: bool = False
    changed: bool = False


APPLICATIONS = frozenset(("module", "wsgi", "wsgi-file", "file", "mount", "paste", "pecan", "psgi", "rack"))
"""Options that name an application. uWSGI loads it and then lists it in its stats."""

PLAIN_NAME = re.compile(r"[\w./:@+=-]{1,200}", re.ASCII)
"""The names of modules, files and mount points that are safe to show."""

Value = int | bool | str | tuple[str, ...]

KINDS: Mapping[str, str] = {
    option.name: str(option.type).removesuffix(" | None") for option in fields(Options) if option.default is None
}
"""The type of a field's values, by field."""

NAMES: Mapping[str, str] = {
    field_name: "async" if field_name == "async_cores" else field_name.replace("_", "-") for field_name in KINDS
}
"""uWSGI's name of the option, by field."""

FIELDS: Mapping[str, str] = {
    **{option: field_name for field_name, option in NAMES.items()},
    "workers": "processes",
    "stats-server": "stats",
}
"""The field of an option's value, by the option's name in all its spellings."""

_NUMBER = re.compile(r"\s*([+-]?[0-9]{1,9}|)(?![0-9])", re.ASCII)
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
        return text.lower() not in ("false", "off", "no", "0")
    if kind == "int":
        if name == "asyncio" and not text:  # uWSGI then uses a default of its own
            return None
        number = _NUMBER.match(text)
        return int(number[1] or 0) if number else None
    if len(text) > _LONGEST_TEXT:
        return None
    if kind == "str":
        return text
    so_far = before if isinstance(before, tuple) else ()
    return (*so_far, text) if len(so_far) < _MOST_TEXTS else None
