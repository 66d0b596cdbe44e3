"""What is known of a uWSGI under review: what was seen of it, and what follows from its options and the defaults.

The defaults and versions are those of uWSGI's source, 2.0.17 to 2.0.31.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import asdict

from uwsgi_headroom.record import DEFAULT_MIN_LIFETIME, Options, spell_option
from uwsgi_headroom.words.formats import counted
from uwsgi_headroom.words.template import Facts

DEFAULT_LISTEN, DEFAULT_BUFFER = 100, 4096
DEFAULT_MERCY, DEFAULT_HTTP_TIMEOUT = 60, 60
"""Seconds of `worker-reload-mercy`, and for which the router waits."""

MAX_REQUESTS_DELTA, AGE_DELTA = (2, 0, 29), (2, 0, 20)
"""The first versions with `max-requests-delta` and `max-worker-lifetime-delta`; others refuse them under `strict`."""

LIMITS = ("max_requests", "reload_on_rss", "reload_on_as")
CHEAPER_OPTIONS = ("cheaper_initial", "cheaper_step", "cheaper_overload", "cheaper_algo")


class Seen(Struct, frozen=True):
    """What is seen of a uWSGI that runs; None where it is unknown, as for a file alone. threads: of each worker;
    mounted: how many applications it has; extensions: loaded modules in C that fail beside a second interpreter;
    descriptors: the limit of open files of the master; is_first: in its container; unit: of systemd."""

    version: tuple[int, ...] | None = None
    workers: int | None = None
    threads: int | None = None
    mounted: int | None = None
    extensions: tuple[str, ...] = ()
    somaxconn: int | None = None
    descriptors: int | None = None
    is_first: bool | None = None
    is_vassal: bool = False
    unit: str = ""
    logs_to_pipe: bool | None = None

    @property
    def is_running(self) -> bool:
        """Whether a uWSGI that runs was read."""
        return self.version is not None or self.workers is not None

    def knows(self, *version: int) -> bool:
        """Whether this uWSGI is at least of this version; an unknown version is taken for a new one."""
        return self.version is None or self.version >= version


class Case(Struct, frozen=True):
    """A uWSGI under review, and what follows from its options and defaults; None where it is unknown. least_life,
    mercy, patience: seconds of `min-worker-lifetime`, `worker-reload-mercy`, and for which the router waits; queue: the
    length of the listen queue; reserve: the workers that cheaper mode can add; scales: whether it is on."""

    options: Options
    seen: Seen
    workers: int | None
    threads: int | None
    least_life: int | None
    mercy: int | None
    patience: int
    queue: int | None
    reserve: int
    scales: bool

    def lacks(self, name: str) -> bool:
        """Whether an option is known to be missing, or off."""
        return self.options.complete and not getattr(self.options, name)

    def reach_together(self, limit: str) -> bool:
        """Whether all workers reach a limit at about the same time."""
        return bool(getattr(self.options, limit)) and (self.workers or 1) > 1 and self.lacks(f"{limit}_delta")

    @property
    def has_router(self) -> bool:
        return bool(self.options.http) and self.options.complete

    @property
    def is_initial_ignored(self) -> bool:
        least, initial = self.options.cheaper or 0, self.options.cheaper_initial or 0
        return self.scales and initial > 0 and not least <= initial <= least + self.reserve

    def name_set(self, *names: str) -> str:
        """Those of the options that are set, for a sentence."""
        return ", ".join(f"`{spell_option(name)}`" for name in names if getattr(self.options, name) is not None)


def make_case(options: Options, seen: Seen) -> Case:
    """What follows from options: a default applies where one is known to be missing."""

    def default(value: int | None, default: int) -> int | None:
        return default if value is None and options.complete else value

    most = options.processes or seen.workers
    return Case(
        options,
        seen,
        workers=seen.workers or default(options.processes or None, 1),
        threads=seen.threads or default(options.threads or None, 1),
        least_life=default(options.min_worker_lifetime, DEFAULT_MIN_LIFETIME),
        mercy=default(options.worker_reload_mercy, DEFAULT_MERCY),
        patience=options.http_timeout or DEFAULT_HTTP_TIMEOUT,
        queue=default(options.listen or None, DEFAULT_LISTEN),
        reserve=(most and most - (options.cheaper or 0)) or 0,
        scales=bool(options.cheaper and most),
    )


def list_facts(case: Case) -> Facts:
    """The facts by the names that rows call them: of the case, of its options, of what is seen, or of texts alone."""
    options, seen, workers = case.options, case.seen, case.workers or 1
    most = case.reserve + (options.cheaper or 0)
    return {
        **asdict(seen),
        **asdict(options),
        **asdict(case),
        "is_running": seen.is_running,
        "size": f"{counted(workers, 'worker')} of {counted(case.threads or 1, 'thread')}.",
        "master_unit": seen.unit * (not seen.is_first),
        "version_name": ".".join(map(str, seen.version or ())),
        "modules": ", ".join(seen.extensions) * bool(seen.mounted),
        "requests_apart": max(1, (options.max_requests or 0) // workers),
        "seconds_apart": max(1, (options.max_worker_lifetime or 0) // workers),
        "half_life": (options.max_worker_lifetime or 0) // 2,
        "life_is_default": options.min_worker_lifetime is None,
        "set_limits": case.name_set(*(name for name in LIMITS if getattr(options, name))),
        "mercy_is_default": options.worker_reload_mercy is None,
        "longer": min(1024, seen.somaxconn or 1024),
        "cheaper_options": case.name_set(*CHEAPER_OPTIONS),
        "most_workers": most,
        "half": max(1, most // 2),
        "nearest": min(max(options.cheaper_initial or 0, options.cheaper or 0), most),
        "step": max(1, case.reserve // 4),
        "gigabytes": f"{(seen.descriptors or 0) * 8 / 1e9:.1f}",
        "times_set": len(options.chmod_socket or ()),
        "headers": options.buffer_size or DEFAULT_BUFFER,
        "unbuffered": not options.post_buffering,
    }


def parse_version(text: str) -> tuple[int, ...] | None:
    """The numbers of a version such as `2.0.21-debian`; None if it has none."""
    found = re.match(r"[0-9]{1,4}(\.[0-9]{1,4})+", text)
    return tuple(map(int, found[0].split("."))) if found else None
