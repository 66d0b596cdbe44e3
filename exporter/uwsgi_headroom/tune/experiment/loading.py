"""Runs the program that applies a load, and reads its output while the server is watched."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from uwsgi_headroom.tune.experiment.observe import CHECK_SECONDS
from uwsgi_headroom.tune.loads.load import Answers, Load
from uwsgi_headroom.tune.loads.load_tools import LoadTool
from uwsgi_headroom.tune.processes.guarded import Guarded, RunError, guarded

_LATE_SECONDS = 60.0
"""How much longer than planned a load tool may take: on a busy machine, starting Python alone takes seconds."""


@dataclass
class Loading:
    """A load in the making. check: raises `RunError` if the server has ended."""

    tool: LoadTool
    guarded: Guarded
    _pipe: int
    _check: Callable[[], None]
    _longest: float
    _output: bytearray = field(default_factory=bytearray)

    def wait_for_begin(self) -> None:
        """Return when the measured time begins. Raises `RunError` if the server or the tool ends before."""
        if self.tool.warm_up is not None:
            return  # its process has just been started, after that of the warm-up
        self._read(lambda: b"begin\n" in self._output)
        if b"begin\n" not in self._output:
            self.refuse_if_failed()
            raise RunError(f"{self.tool.name} ended before the measured time{self.guarded.last_words()}")

    @property
    def is_running(self) -> bool:
        """Whether the tool has not ended yet."""
        return self.guarded.process.poll() is None

    def refuse_if_failed(self) -> None:
        """Raise `RunError` if the server has ended, or the tool without a result."""
        self._check()
        if self.guarded.process.poll():
            self.guarded.refuse_if_ended()

    def wait(self) -> None:
        """Wait for the end of the tool. Raises `RunError` if it fails."""
        self._read(lambda: False)
        self.guarded.process.wait(_LATE_SECONDS)
        self.refuse_if_failed()

    def answers(self) -> Answers:
        """Wait for the end of the load and return what its clients saw. Raises `RunError`."""
        self.wait()
        try:
            return self.tool.parse(self._output.partition(b"begin\n")[2 if self.tool.warm_up is None else 0].decode())
        except ValueError as error:
            raise RunError(
                f"The output of {self.tool.name} cannot be read: {error}{self.guarded.last_words()}"
            ) from error

    def _read(self, enough: Callable[[], bool]) -> None:
        """Read the output until there is enough of it, or to its end."""
        give_up_at = time.monotonic() + self._longest + _LATE_SECONDS
        while not enough():
            ready, _, _ = select.select([self._pipe], [], [], CHECK_SECONDS)
            if ready:
                received = os.read(self._pipe, 1 << 16)
                if not received:
                    return
                self._output += received
            self._check()
            if time.monotonic() > give_up_at:
                raise RunError(f"{self.tool.name} did not end in time{self.guarded.last_words()}")


@contextlib.contextmanager
def loading(
    tool: LoadTool, load: Load, check: Callable[[], None], directory: Path, temporary: Path | None = None
) -> Iterator[Loading]:
    """Warm up the server, then run the measured load during the block.

    check: raises `RunError` if the server has ended. directory: for the tool's log. temporary: as for `guarded`.
    """

    @contextlib.contextmanager
    def started(command: Sequence[str]) -> Iterator[Loading]:
        reading, writing = os.pipe()
        log, longest = directory / "clients.log", load.warm_up + load.seconds + load.timeout
        with (
            os.fdopen(reading, "rb"),
            os.fdopen(writing, "wb") as output,
            guarded(tool.name, command, log=log, temporary=temporary, output=output) as process,
        ):
            output.close()  # the end of the output is the end of the tool
            yield Loading(tool, process, reading, check, longest)

    if tool.warm_up is not None:
        with started(tool.warm_up) as warming:
            warming.wait()
    with started(tool.measured) as measured:
        yield measured
