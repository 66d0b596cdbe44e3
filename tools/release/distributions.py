"""Builds the wheel, the source distribution, the Helm chart and the bill of materials (CycloneDX, as JSON)."""

import os
import re
import shutil
import zipfile
from pathlib import Path

from tools import commands
from tools.environments import Environment, SetupError
from tools.release.bundle import LOCK, download_wheels
from tools.release.source import Source, rewrite_tar_gz, write_tar_gz


def build_distributions(source: Source, tools: Environment, target: Path) -> list[Path]:
    """Writes the wheel and the sdist into `target`; returns their paths. Raises `CommandError` if a check fails.
    setuptools gives the wheel's files the time SOURCE_DATE_EPOCH, but not the sdist's, which is therefore packed
    again."""
    python = str(tools.program("python"))
    build = [python, "-m", "build", "--no-isolation", "--outdir", str(target), str(source.root)]
    # The umask of the build becomes the permissions of the files that setuptools writes.
    plain = ["sh", "-c", 'umask 022 && exec "$@"', "sh"]
    commands.run_command([*plain, "env", f"SOURCE_DATE_EPOCH={source.epoch}", "PYTHONDONTWRITEBYTECODE=1", *build])
    name = f"uwsgi_headroom-{source.version}"
    wheel, sdist = target / f"{name}-py3-none-any.whl", target / f"{name}.tar.gz"
    rewrite_tar_gz(sdist, source.epoch, source.scratch / "sdist")
    for path in (wheel, sdist):
        os.utime(path, (source.epoch, source.epoch))
    commands.run_command([python, "-m", "twine", "check", "--strict", wheel, sdist])
    commands.run_command([tools.program("check-wheel-contents"), wheel])
    return [wheel, sdist]


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
    shutil.copytree(chart, target, ignore=shutil.ignore_patterns(*patterns))


def values(chart: str) -> dict[str, str]:
    """The keys of Chart.yaml that have a plain value. No YAML library: `make release` needs none."""
    return dict(re.findall(r'^(\w+): "?([^"\n]+?)"?$', chart, re.MULTILINE))


def ignored(helmignore: str) -> list[str]:
    """The patterns of a .helmignore, for names of files and directories. Raises `SetupError` for a path."""
    lines = [line.strip() for line in helmignore.splitlines()]
    patterns = [line.rstrip("/") for line in lines if line and not line.startswith("#")]
    if paths := [pattern for pattern in patterns if "/" in pattern or pattern.startswith("!")]:
        raise SetupError(f".helmignore: only names are understood, not {', '.join(paths)}")
    return patterns


PYTHON = "3.13"


def build_sbom(source: Source, wheel: Path, tools: Environment, target: Path) -> Path:
    """Writes the bill of materials into `target`; returns its path. cyclonedx-bom lists what is installed for a Python,
    so the wheels are unpacked into an environment without pip."""
    environment = source.scratch / "sbom"
    commands.run_command([tools.program("python"), "-m", "venv", "--without-pip", environment])
    (modules,) = environment.glob("lib/python*/site-packages")
    downloads = source.scratch / "sbom-wheels"
    downloads.mkdir()
    others = download_wheels(tools, source.root / LOCK, PYTHON, "amd64", downloads)
    for archive in (wheel, *others):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(modules)
    made = target / f"uwsgi-headroom-{source.version}.cdx.json"
    words = ["environment", "--output-reproducible", "--mc-type", "application", "--of", "JSON", "--sv", "1.6"]
    where = ["--pyproject", str(_described(source)), "-o", str(made), str(environment)]
    commands.run_command([tools.program("cyclonedx-py"), *words, *where])
    shutil.rmtree(environment)
    os.utime(made, (source.epoch, source.epoch))
    return made


def _described(source: Source) -> Path:
    """Writes a pyproject.toml with the name and version, which setup.cfg has and cyclonedx-bom does not read."""
    path = source.scratch / "pyproject.toml"
    path.write_text(f'[project]\nname = "uwsgi-headroom"\nversion = "{source.version}"\n')
    return path
