"""Whether the cores in a stats document are threads."""

from pathlib import Path

import pytest

from uwsgi_headroom.kernel.setup import find_concurrency_kind
from uwsgi_headroom.record import Options


def _proc(where: Path, *threads: int) -> Path:
    for pid, count in enumerate(threads, 1):
        (where / str(pid)).mkdir()
        (where / str(pid) / "status").write_text(f"Name:\tuwsgi\nThreads:\t{count}\nSigQ:\t0/1\n")
    return where


@pytest.mark.parametrize(
    ("options", "cores", "threads", "kind"),
    [
        (Options(), {1: 1, 2: 1}, (1, 1), "single"),
        (Options(), {1: 1}, (12,), "single"),  # the application has threads of its own
        (Options(), {1: 8}, (8,), "threads"),
        (Options(), {1: 8}, (30,), "threads"),
        (Options(), {1: 8, 2: 8}, (3, 8), "threads"),  # the first process is ending
        (Options(), {1: 50, 2: 50}, (1, 4), "async"),
        (Options(gevent=50), {1: 50}, (90,), "async"),
        (Options(async_cores=50), {}, (), "async"),
        (Options(gevent=1), {1: 1}, (1,), "single"),
        (Options(asyncio=0), {1: 8}, (8,), "threads"),
        (Options(), {1: None}, (8,), None),  # stats-no-cores
        (Options(), {9: 8}, (), None),  # the process has ended
        (Options(), {}, (), None),
    ],
)
def test_kind(
    options: Options, cores: dict[int, int | None], threads: tuple[int, ...], kind: str | None, tmp_path: Path
) -> None:
    """Fewer threads than cores are async; more are threads, unless the options say otherwise."""
    assert find_concurrency_kind(options, cores, proc=_proc(tmp_path, *threads)) == kind
