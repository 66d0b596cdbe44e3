"""Runs the commands that docs/start.md shows, on real uWSGIs, and writes what they print: `python3 -m tools.examples`.

Each example is a row of EXAMPLES, and a block of the document between marks, `<!-- example NAME -->`. It shows the
lines that the text is about. `tests/markdown/test_links.py` runs all, and compares their form.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tests.support.exporter import exporter
from tools.environments import ROOT
from tools.scenarios.rows import ROWS
from tools.scenarios.scenario import Load, Server
from tools.scenarios.servers import loaded, started
from tools.tables import replace_section
from uwsgi_headroom.words.states import LIMITS

DOCUMENT = ROOT / "docs" / "start.md"

HEADLINE = r"^(OK|WARNING|CRITICAL)  .*\n(?:[^\n ].*\n)*"
"""The verdict of `check`: a line, or more if it is long."""

LEAD_SECONDS = 2.0
"""From the start of the load to that of the command."""

MOST_AT_ONCE = 8
"""Their servers wait more than they work."""


class Example(NamedTuple):
    """A command, and what the document shows of its output.

    shown: the command as it stands there, which is run with the server's own address, or that of its page. server,
    loads: what it is run on; closed loops, whose verdict is the same on a busy machine. serve: flags of an exporter, if
    one runs. files: their contents by name, in the working directory. keep: patterns of what is shown, in the order in
    which it is printed.
    """

    name: str
    shown: str
    keep: tuple[str, ...]
    server: Server | None = None
    loads: tuple[Load, ...] = ()
    serve: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()


def _of_row(name: str, clients: int | None = None) -> tuple[Server, tuple[Load, ...]]:
    """The server and the load of a scenario. clients: others than its own, where those are near a threshold."""
    row = next(row for row in ROWS if row.name == name)
    return row.server, tuple(replace(load, clients=clients or load.clients) for load in row.loads)


_SHOP, _PAGE = "/run/uwsgi/app/shop/stats", "http://127.0.0.1:9238/servers/shop"
"""Where the document has its server: the address, and that of its page."""

EXAMPLES = (
    Example(
        "full",
        f"uwsgi-headroom check {_SHOP}",
        (HEADLINE, r"^  headroom .*\n(?: {15}.*\n)*"),
        Server(8, 1),
        (Load(clients=8, io_ms=900),),
    ),
    Example(
        "slow",
        f"uwsgi-headroom check {_SHOP}",
        (HEADLINE, r"^  time .*\n(?: {15}.*\n)*"),
        *_of_row("2x4, a backend that does not answer", clients=3),
    ),
    Example(
        "refused",
        f"uwsgi-headroom check {_SHOP}",
        (HEADLINE, r"^  queue  .*\n(?: {15}.*\n)*"),
        *_of_row("UNIX queue of 40 overflowing"),
    ),
    Example(
        "what-if",
        f"uwsgi-headroom check {_SHOP} --what-if 4x8,8x8",
        (r"^ +most  limited.*\n.*\n(?: +\d+x\d.*\n)*",),
        Server(4, 8),
        (Load(clients=16, io_ms=900),),
    ),
    Example(
        "hot",
        f"uwsgi-headroom check {_SHOP} --all",
        (r"^ +W .*\n(?: +\d.*\n)*",),
        *_of_row("full worker by map-socket"),
    ),
    Example(
        "review",
        "uwsgi-headroom review shop.ini",
        (r"^1\. WARNING.*\n(?:   .*\n)*",),
        files=(
            ("shop.ini", "[uwsgi]\nmaster = true\nprocesses = 4\nthreads = 8\nmax-requests = 5000\nmodule = shop\n"),
        ),
    ),
    Example(
        "objective",
        f"uwsgi-headroom check {_PAGE}",
        (r"^ *objective .*\n(?: {15}.*\n)*",),
        Server(8, 1),
        (Load(clients=4, io_ms=100),),
        ("--slo", "1s:99%", "--window", "10s"),
    ),
)

OBSERVED_SECONDS = 12.0
"""For how long an exporter observes a server before it is asked: a window of 10 s, and its start."""


def run_all(examples: Sequence[Example] = EXAMPLES) -> dict[str, str]:
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        return dict(zip((each.name for each in examples), pool.map(run_example, examples), strict=True))


def run_example(example: Example) -> str:
    with _server(example) as (stats, page), tempfile.TemporaryDirectory(prefix="example-") as directory:
        for name, text in example.files:
            (Path(directory) / name).write_text(text)
        arguments = example.shown.replace(_SHOP, stats).replace(_PAGE, page).split()[1:]
        seconds = ["--seconds", "20"] if _SHOP in example.shown else []
        command = [sys.executable, "-m", "uwsgi_headroom", *arguments, *seconds]
        ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    # The servers of examples are in temporary directories.
    output = ran.stdout.replace(os.path.dirname(stats), os.path.dirname(_SHOP)) if stats else ran.stdout
    shown = []
    for pattern in example.keep:
        found = re.search(pattern, output, re.MULTILINE)
        assert found, f"{example.name}: no {pattern} in:\n{output}{ran.stderr}"
        shown.append(found[0])
    return "".join(shown)


@contextlib.contextmanager
def _server(example: Example) -> Iterator[tuple[str, str]]:
    """The addresses of a server under its load, and of its page, during the block; empty if the example needs none."""
    if not example.server:
        yield "", ""
        return
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(started(example.server))
        stack.enter_context(loaded([(load, place.address_for(load)) for load in example.loads]))
        page = ""
        if example.serve:
            running = stack.enter_context(exporter("--stats", f"shop={place.stats}", *example.serve))
            page = f"http://127.0.0.1:{running.port}/servers/shop"
        time.sleep(OBSERVED_SECONDS if example.serve else LEAD_SECONDS)
        yield place.stats, page


_OF_THE_MACHINE = ("CPU wait", "CPU", "interpreter lock", "other", "unknown")
"""Parts of the time of a request that are small beside what an example is about."""


def block(example: Example, output: str) -> str:
    return f"```console\n$ {example.shown}\n{output}```\n"


def form(text: str) -> str:
    """The form of an output: its words. Figures, bars and line breaks differ from run to run; the first limit
    and small parts of a request's time, with what else the machine does."""
    for limit in LIMITS.values():
        text = text.replace(limit.outcome, "LIMIT").replace(f"  {limit.name}  ", "  LIMIT  ")
    text = re.sub(r"[█▉▊▋▌▍▎▏]+|\bpython[\d.]* at ", "", text)  # python is the stand-in of a backend
    text = re.sub(r"\b(busy|idle)\b|(?<= )-(?=\s)", "N", text)
    text = re.sub(r"[<>]?\d[\d.,]*(?:[x/]\d+|/?\s?(?:ms|min|kB|MB|GB|[smhdx%])(?![a-z]))?", "N", text)
    text = re.sub(r"\b(none|under N|N) of N requests missed", "PART missed", " ".join(text.split()))
    return re.sub(rf"(, )?N ({'|'.join(_OF_THE_MACHINE)})\b", "", text)


def main() -> None:
    text, printed = DOCUMENT.read_text(), run_all()
    for each in EXAMPLES:
        text = replace_section(text, f"example {each.name}", block(each, printed[each.name]))
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    main()
