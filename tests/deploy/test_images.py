"""The images have one base, no build tools in the last stage, and run without root."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.deploy.files import APP_CONTAINERFILE, CONTAINERFILE, ROOT, instructions, last_stage

images = pytest.mark.parametrize("path", [CONTAINERFILE, APP_CONTAINERFILE], ids=["exporter", "app"])


@images
def test_the_base_is_the_official_slim_image(path: Path) -> None:
    """Its name is complete, so that no registry is guessed, and it is the same for both images and all stages."""
    found = instructions(path)
    assert ("ARG", "BASE=docker.io/library/python:3.13-slim-trixie") in found
    assert {argument.partition(" ")[0] for name, argument in found if name == "FROM"} == {"${BASE}"}


@images
def test_the_last_stage_installs_nothing_and_is_not_root(path: Path) -> None:
    """pip runs in the first stage only; the last instruction about users names one by number."""
    stage = last_stage(path)
    assert not [argument for name, argument in stage if name == "RUN" and re.search(r"\b(pip3?|apt-get) ", argument)]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", [argument for name, argument in stage if name == "USER"][-1])


@images
def test_health_check_and_start_need_no_shell(path: Path) -> None:
    """Both are lists of words."""
    stage = dict(last_stage(path))
    assert " CMD [" in stage["HEALTHCHECK"]
    assert stage["ENTRYPOINT"].startswith("[")


@images
def test_links_lead_to_files_that_are_copied_too(path: Path) -> None:
    """COPY copies a link as a link. The exporter's runbooks are one: without its target, their pages are errors."""
    copied = [
        ROOT / source
        for name, argument in instructions(path)
        if name == "COPY" and not argument.startswith("--from")
        for source in argument.split()[:-1]
    ]
    links = [inner for source in copied if source.is_dir() for inner in source.rglob("*") if inner.is_symlink()]
    lost = [link for link in links if not any(link.resolve().is_relative_to(source) for source in copied)]
    assert not lost


def test_packages_have_the_extras_for_top_and_login() -> None:
    """`top` works in the image, and passwords are checked."""
    assert any("'.[top,login]'" in argument for name, argument in instructions(CONTAINERFILE) if name == "RUN")
