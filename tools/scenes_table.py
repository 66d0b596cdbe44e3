"""The table of the demo's scenes in docs/demo.md."""

from __future__ import annotations

from collections.abc import Iterator

from app.scenes import SCENES
from tools.environments import ROOT
from tools.generated_files import replace_section

FILE = ROOT / "docs" / "demo.md"


def page() -> str:
    """Returns docs/demo.md with the current table of scenes."""
    return replace_section(FILE.read_text(), "scenes", "\n".join(_rows()) + "\n")


def _rows() -> Iterator[str]:
    yield "| SCENE | situation | what you see | CPUs |"
    yield "|---|---|---|---|"
    for scene in SCENES:
        shown = scene.shown.replace("\n", " ")
        yield f"| `{scene.name}` | {scene.summary} | {shown} | {scene.cores:g} |"
