"""Packs the Helm chart as `helm package` does, except that the bytes depend on the contents alone."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
from pathlib import Path

from tools.environments import SetupError
from tools.release.archives import write_tar_gz
from tools.release.source import Source

CHART = Path("deploy/kubernetes/uwsgi-headroom")


def build_chart(source: Source, target: Path) -> Path:
    """Writes the chart into `target`; returns its path. Raises `SetupError` if its version is another than the
    exporter's."""
    chart = source.root / CHART
    said = values((chart / "Chart.yaml").read_text())
    for key in ("version", "appVersion"):
        if said.get(key) != source.version:
            raise SetupError(f"{CHART}/Chart.yaml: {key} is {said.get(key)}, not {source.version}: make generate")
    copy = source.scratch / "chart"
    lay_out(source.root, copy)
    made = target / f"{said['name']}-{source.version}.tgz"
    write_tar_gz(copy, said["name"], source.epoch, made)
    os.utime(made, (source.epoch, source.epoch))
    return made


def lay_out(root: Path, target: Path) -> None:
    """Copies the chart of the repository at `root` without what helm ignores. Its links to the rules and dashboards
    become copies. Raises `SetupError` if one leads nowhere."""
    chart = root / CHART
    for path in chart.rglob("*"):
        if not path.exists():
            raise SetupError(f"{path.relative_to(root)}: there is no {path.readlink()}")
    patterns = ignored((chart / ".helmignore").read_text()) if (chart / ".helmignore").exists() else []
    shutil.copytree(chart, target, ignore=lambda _, names: [name for name in names if _matches(name, patterns)])


def values(chart: str) -> dict[str, str]:
    """Returns the keys of Chart.yaml that have a plain value. No YAML library: `make release` needs none."""
    return dict(re.findall(r'^(\w+): "?([^"\n]+?)"?$', chart, re.MULTILINE))


def ignored(helmignore: str) -> list[str]:
    """Returns the patterns of a .helmignore, for names of files and directories. Raises `SetupError` for a path."""
    lines = [line.strip() for line in helmignore.splitlines()]
    patterns = [line.rstrip("/") for line in lines if line and not line.startswith("#")]
    if paths := [pattern for pattern in patterns if "/" in pattern or pattern.startswith("!")]:
        raise SetupError(f".helmignore: only names are understood, not {', '.join(paths)}")
    return patterns


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
