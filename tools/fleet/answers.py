"""Compares what the rules of a store recorded and which alerts fire with the numbers by which the fleet was made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.fleet import exposition, plan
from tools.fleet.exposition import Series
from tools.support.monitoring import Labels, Prometheus

TOLERANCE = 0.03
"""Relative. Loads run up to 4 s ahead of the clock or behind it, so a rate over 5 minutes may be 8/300 off."""

Key = tuple[str, ...]


def read_captured(directory: Path) -> list[Series]:
    """Reads the two captured expositions of a directory."""
    first, second = ((directory / f"{name}.metrics").read_text() for name in ("first", "second"))
    return exposition.read(first, second)


def check_all(stores: Mapping[str, Prometheus], captured: Sequence[Series], fleet: plan.Fleet) -> dict[str, Any]:
    """Checks each store."""
    return {kind: check(store, captured, fleet) for kind, store in stores.items()}


def check(store: Prometheus, captured: Sequence[Series], fleet: plan.Fleet) -> dict[str, Any]:
    """Returns for each known answer how many values were right, the largest relative difference, and what is wrong."""
    results: dict[str, Any] = {}
    for name, (labels, wanted) in known_values(captured, fleet).items():
        results[name] = _compare(wanted, _by(store.query(name), labels))
    for name, (labels, wanted_set) in known_alerts(fleet).items():
        found = set(_by(store.query(f'ALERTS{{alertname="{name}",alertstate="firing"}}'), labels))
        results[name] = {
            "wanted": len(wanted_set),
            "found": len(found),
            "wrong": sorted(map(str, wanted_set ^ found))[:10],
        }
    return results


def known_values(captured: Sequence[Series], fleet: plan.Fleet) -> dict[str, tuple[Key, dict[Key, float]]]:
    """Returns recorded series with their labels and the values that follow from the captured growth and the plan."""
    seconds = exposition.observed_seconds(list(captured))

    def rate(name: str) -> float:
        return sum(max(0.0, one.second - one.first) for one in captured if one.name == name) / seconds

    busy, running = rate("uwsgi_worker_busy_thread_seconds_total"), rate("uwsgi_worker_running_time_seconds_total")
    requests = rate("uwsgi_worker_requests_total")
    (ceiling,) = (one.second for one in captured if one.name == "uwsgi_threads_ceiling")
    servers = list(fleet.answering())

    def by_server(value: Callable[[plan.Server], float]) -> tuple[Key, dict[Key, float]]:
        return ("instance", "server"), {(server.instance, server.name): value(server) for server in servers}

    def by_service(value: Callable[[plan.Server], float]) -> tuple[Key, dict[Key, float]]:
        sums: dict[Key, float] = {}
        for server in servers:
            sums[(server.name,)] = sums.get((server.name,), 0.0) + value(server)
        return ("server",), sums

    return {
        "service:uwsgi_concurrency_observed:ratio_rate5m": by_service(lambda server: busy * server.load),
        "service:uwsgi_concurrency_littles_law:rate5m": by_service(lambda server: running * server.load),
        "service:uwsgi_requests:rate5m": by_service(lambda server: requests * server.load),
        "server:uwsgi_utilization:ratio_rate5m": by_server(lambda server: busy * server.load / ceiling),
        "server:uwsgi_hot_worker_ratio:ratio_rate5m": by_server(
            lambda server: plan.HOT_WORKER if server.trouble == "uneven" else 1.0
        ),
        "server:uwsgi_queue_length:ratio_rate5m": by_server(
            lambda server: (
                plan.QUEUED if server.trouble == "queue" else rate("uwsgi_socket_queue_seconds_total") * server.load
            )
        ),
    }


def known_alerts(fleet: plan.Fleet) -> dict[str, tuple[Key, set[Key]]]:
    """Returns alerts with the label sets that must fire, and no others, when their holds are over."""
    pair = ("instance", "server")
    return {
        "UwsgiDown": (pair, set(fleet.troubled("down"))),
        "UwsgiExporterDown": (("instance",), {(instance,) for instance in fleet.unreachable()}),
        "UwsgiListenQueueFilling": (pair, set(fleet.troubled("queue"))),
        "UwsgiWorkersUneven": (pair, set(fleet.troubled("uneven"))),
    }


def _by(result: Mapping[Labels, float], labels: Key) -> dict[Key, float]:
    return {tuple(dict(found).get(label, "") for label in labels): value for found, value in result.items()}


def _compare(wanted: Mapping[Key, float], found: Mapping[Key, float]) -> dict[str, Any]:
    """Returns numbers of values, and those that are absent, unexpected or farther off than the tolerance."""
    off = {
        key: math.inf if key not in found else abs(found[key] - value) / max(abs(value), 1e-9)
        for key, value in wanted.items()
        if value or key not in found
    }
    wrong = [
        f"{key}: {found.get(key)} instead of {wanted[key]}"
        for key, difference in off.items()
        if not difference <= TOLERANCE
    ]
    wrong += [f"{key}: unexpected" for key in found.keys() - wanted.keys()]
    finite = [difference for difference in off.values() if math.isfinite(difference)]
    return {
        "wanted": len(wanted),
        "found": len(found),
        "largest": max(finite, default=0.0),
        "wrong": sorted(wrong)[:10],
        "wrongs": len(wrong),
    }
