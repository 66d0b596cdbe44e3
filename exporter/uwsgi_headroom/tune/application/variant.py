"""Defines a variant that `tune` may measure: processes, threads, and the options that decide who takes a request."""

from __future__ import annotations

from dataclasses import dataclass, replace

from uwsgi_headroom.analysis.what_if import Setting

DEFAULT_LISTEN = 100
"""The length of the listen queue if `listen` is not set (uWSGI, core/uwsgi.c)."""


@dataclass(frozen=True, slots=True)
class Variant:
    setting: Setting
    thunder_lock: bool = False
    """Whether processes take turns to accept."""
    cheaper: int | None = None
    """The processes that always run; None: all of them."""
    listen: int | None = None
    """The length of the listen queue; None: uWSGI's default."""

    @property
    def name(self) -> str:
        """Such as `8x4` or `8x4 thunder-lock`; unique among variants."""
        return " ".join([str(self.setting), *self.options])

    @property
    def options(self) -> list[str]:
        """What is not uWSGI's default, beside the setting."""
        found = ["thunder-lock"] if self.thunder_lock else []
        if self.cheaper is not None:
            found.append(f"cheaper={self.cheaper}")
        if self.listen is not None:
            found.append(f"listen={self.listen}")
        return found

    @property
    def size(self) -> tuple[int, int, int]:
        """Compares how much a variant needs: threads in all, processes (which take the memory), options."""
        return self.setting.in_all, self.setting.processes, len(self.options)

    @property
    def queue(self) -> int:
        return DEFAULT_LISTEN if self.listen is None else self.listen

    def with_setting(self, setting: Setting) -> Variant:
        """The same options with other processes and threads. uWSGI wants `cheaper` below the number of processes."""
        cheaper = None if self.cheaper is None else min(self.cheaper, setting.processes - 1)
        return replace(self, setting=setting, cheaper=cheaper or None)

    def list_words(self, socket: str) -> list[str]:
        """The words of uWSGI's command line. socket: the address on which HTTP is served."""
        words = [f"--processes={self.setting.processes}", f"--threads={self.setting.threads}"]
        if self.thunder_lock:
            words.append("--thunder-lock")
        if self.cheaper is not None:
            # All processes run from the start: else a short run measures how fast they are started, and their memory
            # is that of a few.
            words += [f"--cheaper={self.cheaper}", f"--cheaper-initial={self.setting.processes}"]
        if self.listen is not None:
            words.append(f"--listen={self.listen}")
        return [*words, f"--http-socket={socket}"]
