"""The uWSGI options that advice needs. No other option is kept: a configuration may hold secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one uWSGI master; None for an option that is not set or not known.

    Times are in seconds and `reload_on_*` in megabytes, as in uWSGI. `async_cores` is the option `async`; `workers`
    and `processes` are one option.

    source: "command line" or the name of the file as uWSGI got it, by field.
    names_application: whether one of the options that name an application is known to be set, to any value.
    can_reload_workers: whether an option is known to be set with which the workers can be reloaded while the master
        stays.
    application: the module or file that the option names; empty if unknown or not a plain name.
    configuration_files: those on the command line, as written there, in the order in which uWSGI loads them; empty
        texts for those whose names are not plain.
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
    configuration_files: tuple[str, ...] = ()
    complete: bool = False
    changed: bool = False

    @property
    def configuration_file(self) -> str:
        """The file that is the application's own: the last one that no distribution installed; empty if unknown."""
        names = [name for name in self.configuration_files if not name.startswith(DISTRIBUTIONS_FILES)]
        return names[-1] if names else ""


DISTRIBUTIONS_FILES = "/usr/share/"
"""Where Debian's package keeps the file that it gives to every uWSGI before the application's own."""
