"""Runs the commands that docs/start.md shows, on real uWSGIs, and writes what they print: `python3 -m tools.examples`.

Each example is a row of EXAMPLES, and a block of the document between marks, `<!-- example NAME -->`. It shows the
lines that the text is about, not the whole output. `tests/markdown/test_examples.py` runs all, and compares their form.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tools.environments import ROOT
from tools.generated_files import replace_section
from tools.scenarios import loads
from tools.scenarios.run import counted
from tools.scenarios.servers import started
from tools.scenarios.table import ROWS
from tools.support.exporter import exporter

DOCUMENT = ROOT / "docs" / "start.md"

HEADLINE = r"^(OK|WARNING|CRITICAL)  .*\n(?:[^\n ].*\n)*"
"""The verdict of `check`: a line, or more if it is long."""

ADVICE = r"^   -> .*\n(?:      .*\n)*"

MOST_AT_ONCE = 4


@dataclass(frozen=True)
class Example:
    """A command, and what the document shows of its output. shown: the command as it stands there. arguments: the same
    for the program; `{stats}` is the address of the server, `{page}` that of its page. row: the scenario whose server
    and load it is run on. serve: flags of an exporter, if one runs. files: their contents by name, in the working
    directory. keep: patterns of what is shown, in the order in which it is printed."""

    name: str
    shown: str
    arguments: tuple[str, ...]
    keep: tuple[str, ...]
    row: str = ""
    serve: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()


_CHECK = ("check", "{stats}", "--seconds", "10")
_SHOP = "/run/uwsgi/app/shop/stats"

EXAMPLES = (
    Example(
        "full",
        f"uwsgi-headroom check {_SHOP}",
        _CHECK,
        (HEADLINE, r"^  headroom .*\n"),
        "prefork 8x1 at 90 %",
    ),
    Example(
        "slow",
        f"uwsgi-headroom check {_SHOP}",
        _CHECK,
        (HEADLINE, r"^  time .*\n(?: {15}.*\n)*"),
        "2x4, two backends, one of them slow",
    ),
    Example(
        "refused",
        f"uwsgi-headroom check {_SHOP}",
        _CHECK,
        (HEADLINE, ADVICE),
        "UNIX queue of 40 overflowing",
    ),
    Example(
        "what-if",
        f"uwsgi-headroom check {_SHOP} --what-if 4x8,8x8",
        (*_CHECK, "--what-if", "4x8,8x8"),
        (r"^ +most  limited.*\n.*\n(?: +\d+x\d.*\n)*",),
        "4x8 io at 50 %",
    ),
    Example(
        "hot",
        f"uwsgi-headroom check {_SHOP}",
        _CHECK,
        (r"^  worker .*\n(?: +\d.*\n)*", ADVICE),
        "full worker by map-socket",
    ),
    Example(
        "review",
        "uwsgi-headroom review shop.ini",
        ("review", "shop.ini"),
        (r"^1\. WARNING.*\n(?:   .*\n)*",),
        files=(
            ("shop.ini", "[uwsgi]\nmaster = true\nprocesses = 4\nthreads = 8\nmax-requests = 5000\nmodule = shop\n"),
        ),
    ),
    Example(
        "objective",
        "uwsgi-headroom check http://127.0.0.1:9238/servers/shop",
        ("check", "{page}"),
        (r"^ *objective .*\n(?: {15}.*\n)*",),
        "prefork 8x1 at 50 %",
        ("--slo", "1s:99%", "--window", "10s"),
    ),
)

OBSERVED_SECONDS = 12.0
"""For how long an exporter observes a server before it is asked: a window of 10 s, and its start."""


def run_all(examples: Sequence[Example] = EXAMPLES) -> dict[str, str]:
    """Runs the examples, a few at a time; returns what the document shows of each, by name."""
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        return dict(zip((each.name for each in examples), pool.map(run_example, examples), strict=True))


def run_example(example: Example) -> str:
    """Runs one; returns the lines to show. Raises AssertionError if a pattern is not in the output."""
    with _server(example) as (stats, page), tempfile.TemporaryDirectory(prefix="example-") as directory:
        for name, text in example.files:
            (Path(directory) / name).write_text(text)
        arguments = [each.replace("{stats}", stats).replace("{page}", page) for each in example.arguments]
        command = [sys.executable, "-m", "uwsgi_headroom", *arguments]
        ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    shown = []
    for pattern in example.keep:
        found = re.search(pattern, ran.stdout, re.MULTILINE)
        assert found, f"{example.name}: no {pattern} in:\n{ran.stdout}{ran.stderr}"
        shown.append(found[0])
    return "".join(shown)


@contextlib.contextmanager
def _server(example: Example) -> Iterator[tuple[str, str]]:
    """The addresses of a server under its load, and of its page, during the block; empty if the example needs none."""
    if not example.row:
        yield "", ""
        return
    row = next(row for row in ROWS if row.name == example.row)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(started(row.server))
        addressed = [(counted(load, row.server), place.address_for(load)) for load in row.loads]
        stack.enter_context(loads.running(addressed))
        page = ""
        if example.serve:
            running = stack.enter_context(exporter("--stats", f"shop={place.stats}", *example.serve))
            page = f"http://127.0.0.1:{running.port}/servers/shop"
        time.sleep(OBSERVED_SECONDS if example.serve else row.lead)
        yield place.stats, page


def block(example: Example, output: str) -> str:
    """The block of the document."""
    return f"```console\n$ {example.shown}\n{output}```\n"


def form(text: str) -> str:
    """The form of an output: its words. Figures with their units, bars and the way in which lines break differ from run
    to run."""
    text = re.sub(r"[█▉▊▋▌▍▎▏]+", "", text)
    text = re.sub(r"[<>]?\d[\d.,]*(?:[x/]\d+|/?\s?(?:ms|min|kB|MB|GB|[smhdx%])(?![a-z]))?", "N", text)
    return " ".join(text.split())


def main() -> int:
    """Writes the blocks into the document; returns the exit status."""
    text = DOCUMENT.read_text()
    for name, output in run_all().items():
        example = next(each for each in EXAMPLES if each.name == name)
        text = replace_section(text, f"example {name}", block(example, output))
    DOCUMENT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
