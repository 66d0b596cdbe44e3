"""docs/README.md: every page of docs/, with the sentence that it begins with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.environments import ROOT

DOCS = ROOT / "docs"
FILE = DOCS / "README.md"

HEAD = """\
# Documents

Start with the [README](../README.md). If the exporter sent you here because something is wrong:
[troubleshooting.md](troubleshooting.md). If you want to change it: [CONTRIBUTING.md](../CONTRIBUTING.md). More is in
[alerts/README.md](../alerts/README.md), [dashboards/README.md](../dashboards/README.md) and
[deploy/systemd/README.md](../deploy/systemd/README.md). This list is generated (`make generate`).

| page | what it says |
|---|---|
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_rows(DOCS))


def _rows(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.md")):
        if path.name != FILE.name:
            title, sentence = _begin(path.read_text())
            yield f"| [{title}]({path.name}) | {sentence} |\n"


def _begin(text: str) -> tuple[str, str]:
    """The title of a page, and the first sentence of its first paragraph."""
    title = text.partition("\n")[0].removeprefix("# ")
    blocks = (block for block in text.split("\n\n")[1:] if not block.startswith(("#", "<!--", "|", "!", "`" * 3)))
    sentence = re.split(r"(?<=[.?])\s", " ".join(next(blocks, "").split()))[0]
    return title, re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", sentence).replace("|", r"\|")
