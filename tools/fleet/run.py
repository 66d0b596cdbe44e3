"""Runs a fleet of stand-in hosts and stores that scrape it, for some minutes; measures and compares at the end."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.loopback import get
from app.programs import Program, Running, running
from tools.environments import ROOT
from tools.fleet import agreement, answers, hosts, panels, plan, stores, usage
from tools.fleet.context import Context
from tools.support.monitoring import Prometheus
from tools.support.real_uwsgi import free_port

SETTLE_SECONDS = 60.0
"""Between the start of the last program and the begin of the measurement."""


@dataclass(frozen=True)
class Settings:
    """captured: directory with two expositions; replicas: names of the scrapers of each store."""

    directory: Path
    captured: Path
    fleet: plan.Fleet
    interval: int
    minutes: float
    kinds: Sequence[str]
    replicas: Sequence[str]
    rules: Sequence[Path]
    relabel: list[dict[str, Any]]


def run(settings: Settings) -> dict[str, Any]:
    """Returns all results as a document of JSON, which is also in `results.json` of the directory."""
    settings.directory.mkdir(parents=True, exist_ok=True)
    context = Context(
        settings.directory,
        settings.directory / "targets.json",
        settings.interval,
        list(settings.rules),
        settings.relabel,
    )
    built = {kind: stores.KINDS[kind](context, settings.replicas) for kind in settings.kinds}
    programs = [_hosts(settings, context)] + [program for store in built.values() for program in store.programs]
    result: dict[str, Any] = {"settings": {key: str(value) for key, value in vars(settings).items()}}
    with _running(programs, settings.directory) as up:
        time.sleep(min(SETTLE_SECONDS, settings.minutes * 20))
        before = _measure(up, context)
        time.sleep(settings.minutes * 60)
        after = _measure(up, context)
        result["usage"] = {name: {"before": before[name], "after": after[name]} for name in before}
        _write(settings, result)
        queried = {kind: Prometheus(context.port(store.queried)) for kind, store in built.items()}
        result["answers"] = answers.check_all(queried, answers.read_captured(settings.captured), settings.fleet)
        _write(settings, result)
        result["agreement"] = _agreement(settings, queried)
        result["panels"] = {kind: panels.measure(store, settings.minutes * 60) for kind, store in queried.items()}
        _write(settings, result)
        result["end"] = _measure(up, context)
        result["snapshot"] = _snapshots(context)
    _write(settings, result)
    return result


def _agreement(settings: Settings, queried: Mapping[str, Prometheus]) -> dict[str, Any]:
    """Compares each store with Prometheus, if that runs too, a minute ago: when all of them had every sample."""
    seconds = settings.minutes * 60
    at = time.time() - min(SETTLE_SECONDS, seconds / 2)
    asked = {**agreement.recorded_series(settings.rules), **agreement.panel_queries(seconds, at - seconds)}
    others = {kind: store for kind, store in queried.items() if kind != "prometheus" and "prometheus" in queried}
    return {kind: agreement.compare(queried["prometheus"], store, asked, at) for kind, store in others.items()}


def _write(settings: Settings, result: dict[str, Any]) -> None:
    (settings.directory / "results.json").write_text(json.dumps(result, indent=1))


def _hosts(settings: Settings, context: Context) -> Program:
    port = free_port()
    context.ports["hosts"] = port
    hosts.write_targets(context.targets, settings.fleet.hosts, port)
    command = [sys.executable, "-m", "tools.fleet", "hosts", "--port", str(port), "--hosts", str(settings.fleet.hosts)]
    return Program(
        "hosts",
        "starting the stand-in hosts",
        [*command, "--captured", str(settings.captured)],
        lambda: get(port, "/hosts/0/metrics") is not None,
    )


@contextlib.contextmanager
def _running(programs: Sequence[Program], directory: Path) -> Iterator[Running]:
    with contextlib.redirect_stdout(sys.stderr), running(programs, directory, cwd=ROOT) as up:
        yield up


def _measure(up: Running, context: Context) -> dict[str, dict[str, Any]]:
    return {
        name: usage.read(
            pid, None if name == "hosts" else context.ports.get(name), context.directory / f"{name}-data"
        ).as_dict()
        for name, pid in up.pids().items()
    }


def _snapshots(context: Context) -> dict[str, Any]:
    """Makes every Prometheus write its head as a block, and VictoriaMetrics merge its parts; returns their sizes."""
    sizes: dict[str, Any] = {}
    for name, port in context.ports.items():
        if name.startswith("prometheus"):
            sizes[name] = usage.snapshot(port, context.directory / f"{name}-data")
        if name == "victoria-metrics":
            get(port, "/internal/force_flush")
            sizes[name] = usage.own_figures(port)
    return sizes
