"""`make release`: builds a release from the last commit into dist/. Publishes nothing.

The wheel, the source distribution, a Debian package for each architecture, the Helm chart, the bill of materials
(CycloneDX) and SHA256SUMS. Their bytes depend on the commit and on tools/release/requirements.txt alone, those of
Debian packages also on the versions of debhelper and dpkg.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tools import commands
from tools.commands import CommandError, note, show_step
from tools.environments import ROOT, SetupError
from tools.release.bundle import MACHINES
from tools.release.deb import build_deb
from tools.release.distributions import CHART, build_chart, build_distributions, build_sbom
from tools.release.source import changed_files, exported, release_tools

SUMS = "SHA256SUMS"
KINDS = ("python", "deb", "chart", "sbom")


def build(
    checkout: Path, target: Path, only: Sequence[str] = (), architectures: Sequence[str] = tuple(MACHINES)
) -> list[Path]:
    """Builds the release of the last commit of `checkout` into `target`; returns the paths, checksums last. only: some
    of python, deb, chart and sbom; nothing means all."""
    tools = release_tools()
    target.mkdir(parents=True, exist_ok=True)
    with exported(checkout) as source:
        with show_step(f"wheel and source distribution of {source.version}"):
            made = build_distributions(source, tools, target)
        wheel = made[0]
        steps: list[tuple[str, str, Callable[[], Path]]] = [
            ("deb", f"Debian package for {name}", lambda name=name: build_deb(source, wheel, tools, name, target))  # type: ignore[misc]
            for name in architectures
        ]
        if (source.root / CHART).is_dir():
            steps.append(("chart", "Helm chart", lambda: build_chart(source, target)))
        steps.append(("sbom", "bill of materials", lambda: build_sbom(source, wheel, tools, target)))
        for kind, title, step in steps:
            if not only or kind in only:
                with show_step(title):
                    made.append(step())
    if not only:
        (target / SUMS).unlink(missing_ok=True)
    for path in made:
        add_checksum(target / SUMS, path)
    return [*made, target / SUMS]


def add_checksum(sums: Path, path: Path) -> None:
    """Adds the line of `path` to the file `sums`, or replaces it, as sha256sum writes it."""
    by_name = {line.split()[1]: line for line in sums.read_text().splitlines()} if sums.exists() else {}
    by_name[path.name] = f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
    sums.write_text("".join(f"{by_name[name]}\n" for name in sorted(by_name)))


def main(argv: Sequence[str] | None = None) -> str | None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.release", description=__doc__)
    parser.add_argument("--only", action="append", default=[], choices=KINDS)
    parser.add_argument("--architecture", action="append", choices=sorted(MACHINES), help="of Debian packages")
    parser.add_argument("--twice", action="store_true", help="build twice, and compare the bytes")
    options = parser.parse_args(argv)
    only: list[str] = options.only
    try:
        if options.twice:
            return build_twice(only)
        if changed := changed_files(ROOT):
            note(f"  {len(changed)} changed files are not in the last commit, so not in the release: {changed[0]} ...")
        for path in build(ROOT, ROOT / "dist", only, options.architecture or tuple(MACHINES)):
            note(f"dist/{path.name}: {path.stat().st_size:,} bytes")
    except (SetupError, CommandError) as error:
        return f"\nmake release: {error}"
    return None


def build_twice(only: Sequence[str]) -> str | None:
    """Builds in two clones, the second one in another time zone, with another umask and another directory for temporary
    files; returns a message with the files that differ."""
    with tempfile.TemporaryDirectory(prefix="headroom-twice-") as name:
        origin = subprocess.check_output(["git", "rev-parse", "--show-toplevel"], cwd=ROOT, text=True).strip()
        one, two = Path(name, "first"), Path(name, "the/second/one")
        sums = [_build(origin, one, "UTC", 0o022, only)]
        sums.append(_build(f"{one}/clone", two, "Asia/Kathmandu", 0o077, only))  # the same commit in any case
    first, second = (set(text.splitlines()) for text in sums)
    if first != second:
        return "\n".join(["release-twice: these differ:", *sorted(first ^ second)])
    print(f"release-twice: {len(first)} files have the same bytes in both builds")
    return None


def _build(origin: str, directory: Path, zone: str, mask: int, only: Sequence[str]) -> str:
    temporary = directory / "temporary"
    temporary.mkdir(parents=True)
    os.environ.update(TZ=zone, TMPDIR=str(temporary))
    time.tzset()
    tempfile.tempdir = str(temporary)
    os.umask(mask)
    commands.run_command(["git", "clone", "--quiet", "--depth=1", f"file://{origin}", directory / "clone"])
    target = directory / "dist"
    build(directory / "clone", target, only)
    return (target / SUMS).read_text()


if __name__ == "__main__":
    sys.exit(main())
