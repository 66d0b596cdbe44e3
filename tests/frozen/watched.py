"""Runs a program, and keeps what its judge is given: `python -m tests.frozen.watched FOLDER -m MODULE ARGUMENTS`.

As a plugin of pytest (`-p tests.frozen.watched`, with FROZEN_FOLDER set), it keeps what the tests judge. Each process
writes a file of its own, with one line of JSON for each judgement.
"""

import atexit
import json
import os
import runpy
import sys
from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from tests.frozen.form import encode
from uwsgi_headroom.analysis import figures as computing
from uwsgi_headroom.analysis import findings as finding
from uwsgi_headroom.analysis.backends import ALL, BackendSlices
from uwsgi_headroom.history.response_times.bins import share_bins

KEPT = 100
"""The inputs whose figures may still be judged."""

EACH = 2
"""How many judgements of one test are kept: those of Hypothesis have thousands."""

_inputs: list[tuple[Any, dict[str, Any]]] = []
_lines: list[dict[str, Any]] = []
_compute, _collect = computing.compute_figures, finding.collect_findings


def _watch_compute(known: computing.Known) -> Any:
    figures = _compute(known)
    _inputs.append((figures, asdict(known)))
    del _inputs[:-KEPT]
    return figures


def _watch_collect(figures: Any, known_harms: Sequence[Any] = ()) -> Any:
    found = _collect(figures, known_harms)
    given = next((given for made, given in reversed(_inputs) if made.server is figures.server), None)
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    enough = test and sum(line["test"] == test for line in _lines[-EACH:]) == EACH
    if given is not None and not known_harms and not enough:
        if figures.objective:
            given = {**given, "objective": figures.objective}
        try:
            codes = [[each.code, each.severity] for each in found]
            line = {"address": figures.server.address, "test": test, "codes": codes, "given": _encode(given)}
        except AssertionError:
            return found
        _lines.append(line)
    return found


def _encode(given: dict[str, Any]) -> dict[str, Any]:
    for times in (given.get("response_times"), given.get("queue_waits")):
        assert times is None or times.bins.edges == share_bins().edges, "bins of an objective"
    slices = given.get("backends")
    form = {name: encode(each) for name, each in given.items() if name != "backends" and each is not None}
    if isinstance(slices, BackendSlices):
        names = (ALL, *(given["window"].waits.backends if given["window"].waits else ()))
        found = {name: slices.find_saturation(name) for name in names}
        if any(found.values()):
            form["backends"] = {name: encode(each) for name, each in found.items() if each}
    return form


def _write(folder: str) -> None:
    with open(f"{folder}/{os.getpid()}.jsonl", "a") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in _lines)


computing.compute_figures = _watch_compute
finding.collect_findings = _watch_collect
if folder := os.environ.get("FROZEN_FOLDER"):
    atexit.register(_write, folder)

if __name__ == "__main__":
    atexit.register(_write, sys.argv[1])
    module = sys.argv[3]
    del sys.argv[:3]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
