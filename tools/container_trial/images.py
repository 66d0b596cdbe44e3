"""Makes a stand-in for the official Python image from a Debian root, and builds this repository's images on it.

No image is pulled. The stand-in has the name that the Containerfiles have behind FROM, Python at the same place
(/usr/local/bin/python3) and pip in the same directory, so that the Containerfiles are built unchanged.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tools import commands, debian_root
from tools.commands import CommandError
from tools.container_trial.podman import Podman
from tools.debian_root import UnavailableError
from tools.environments import ROOT
from tools.machine import machine
from tools.progress import show_step

CONTAINERFILES = {
    "localhost/uwsgi-headroom": ROOT / "deploy" / "container" / "Containerfile",
    "localhost/uwsgi-headroom-demo-app": ROOT / "deploy" / "compose" / "app" / "Containerfile",
}
EXPORTER, APP = CONTAINERFILES

_BASE = re.compile(r"^ARG BASE=(\S+)$", re.MULTILINE)
_PACKAGES = ("python3", "python3-venv", "ca-certificates")
_LIKE_THE_OFFICIAL_IMAGE = """set -e
python3 -m venv /tmp/venv
packages=$(echo /usr/local/lib/python3.*)/dist-packages
mkdir -p "$packages"
cp -r /tmp/venv/lib/python3.*/site-packages/pip* "$packages"
ln -s dist-packages "$packages/../site-packages"
ln -s /usr/bin/python3 /usr/local/bin/python3
rm -rf /tmp/venv /var/lib/apt/lists/*
apt-get clean
"""


def base_image() -> str:
    """Returns the name of the base image in the Containerfile."""
    found = _BASE.search(CONTAINERFILES[EXPORTER].read_text())
    assert found, "the Containerfile has no line ARG BASE="
    return found[1]


def suite(image: str) -> str:
    """Returns the Debian suite of an official Python image, the last part of its tag."""
    return image.rpartition("-")[2]


def make_stand_in(podman: Podman) -> None:
    """Makes the base image. Raises `UnavailableError` if there is no Debian root or archive."""
    image = base_image()
    with debian_root.copied(suite(image), debian_root.cache()) as root:
        with machine(root) as bare, show_step(f"installing Python in a root of {suite(image)}"):
            install = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y", "install"]
            try:
                commands.run_command(bare.command(["apt-get", "-qq", "update"]))
                commands.run_command(bare.command([*install, "--no-install-recommends", *_PACKAGES]))
            except CommandError as error:
                raise UnavailableError(f"no archive: {error.last_line}") from error
            commands.run_command(bare.command(["sh", "-c", _LIKE_THE_OFFICIAL_IMAGE]))
        with show_step(f"importing it as {image}"):
            _import(podman, root, image)


def _import(podman: Podman, root: Path, image: str) -> None:
    archive = subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE)
    assert archive.stdout
    path = "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
    podman.run("import", "--change", path, "-", image, stdin=archive.stdout.fileno())
    archive.stdout.close()
    archive.wait()


def build(podman: Podman, image: str) -> None:
    """Builds one of this repository's images."""
    options = ("--isolation=chroot", "--pull=never", "--format=docker", "--file", CONTAINERFILES[image])
    with show_step(f"building {image}"):
        podman.run("build", *options, "--tag", image, ROOT)


def megabytes(podman: Podman, image: str) -> float:
    """Returns the size of an image with its base, in 10⁶ bytes."""
    return int(podman.run("image", "inspect", "--format", "{{.Size}}", image)) / 1e6
