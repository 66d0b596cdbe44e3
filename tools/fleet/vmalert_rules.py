"""Writes the shipped rules as the vmalert of Debian 12 (1.79) reads them.

That version knows neither `keep_firing_for` nor the template function `toTime`: it refuses the whole file. Newer rule
engines need no change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

_TIME = re.compile(r"\{\{ \(([^()]*?) \| toTime\)\.Format [^}]*\}\}( UTC)?")


def write(files: Iterable[Path], directory: Path) -> Path:
    """Writes changed copies of rule files into a directory, and returns it."""
    directory.mkdir(parents=True, exist_ok=True)
    for file in files:
        (directory / file.name).write_text(yaml.safe_dump(changed(yaml.safe_load(file.read_text())), sort_keys=False))
    return directory


def changed(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a rule file's document without what vmalert 1.79 refuses. Expressions stay as they are."""
    return {"groups": [{**group, "rules": [_rule(rule) for rule in group["rules"]]} for group in document["groups"]]}


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in rule.items() if key != "keep_firing_for"}
    if "annotations" in kept:
        notes = kept["annotations"]
        kept["annotations"] = {key: _TIME.sub(r"{{ \1 }} (UNIX time)", text) for key, text in notes.items()}
    return kept
