"""Runs a real Prometheus and a real Alertmanager for tests, on loopback with short intervals, and queries them."""

import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from app import monitoring
from app.programs import Program, running
from tests.support.real_uwsgi import free_port
from tools import debian

T = TypeVar("T")
Labels = frozenset[tuple[str, str]]


def find(name: str) -> Path:
    """Returns the path of a program, from PATH or as unpacked by `make test`."""
    program = debian.find_program(name, Path(sys.executable).parent)
    if not program:
        raise RuntimeError(f"no {name} to test with: run `make test`, or {debian.install_advice([name])}")
    return program


def eventually(look: Callable[[], T], enough: Callable[[T], object], what: str, seconds: float = 60) -> T:
    """Calls `look` until its result is `enough`, and returns it. Fails after `seconds` with the last result."""
    end = time.monotonic() + seconds
    while not enough(answer := look()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds:g} s. Seen last: {answer!r}")
        time.sleep(0.1)
    return answer


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus on a port of 127.0.0.1. limit: the timeout of each query."""

    port: int
    limit: str = "2m"

    def query(self, expression: str, at: float | None = None) -> dict[Labels, float]:
        """Returns the values of an instant query by label set, now or at a UNIX time; a scalar has no labels."""
        data = self._ask("query", query=expression, time=time.time() if at is None else at, timeout=self.limit)
        if data["resultType"] == "scalar":
            return {frozenset(): float(data["result"][1])}
        return {frozenset(sample["metric"].items()): float(sample["value"][1]) for sample in data["result"]}

    def query_range(
        self, expression: str, start: float, end: float, step: float
    ) -> dict[Labels, list[tuple[float, float]]]:
        """Returns pairs of time (UNIX seconds) and value, by label set."""
        data = self._ask("query_range", query=expression, start=start, end=end, step=step, timeout=self.limit)
        return {
            frozenset(series["metric"].items()): [(at, float(value)) for at, value in series["values"]]
            for series in data["result"]
        }

    def values(self, label: str, series: str) -> list[str]:
        """Returns the values of a label in the series that match a selector."""
        values: list[str] = self._ask(f"label/{label}/values", **{"match[]": series})
        return values

    def alerts(self, name: str | None = None) -> list[dict[str, Any]]:
        """Returns pending and firing alerts (`state`) with labels and annotations: those named `name`, or all."""
        alerts: list[dict[str, Any]] = self._ask("alerts")["alerts"]
        return [alert for alert in alerts if name in (None, alert["labels"]["alertname"])]

    def unwell(self) -> dict[str, str]:
        """Returns the last error of each rule that Prometheus cannot evaluate, by rule name."""
        rules = [rule for group in self._ask("rules")["groups"] for rule in group["rules"]]
        return {rule["name"]: rule.get("lastError", "") for rule in rules if rule["health"] == "err"}

    def wait_for(
        self, expression: str, enough: Callable[[dict[Labels, float]], object] = bool, seconds: float = 60
    ) -> dict[Labels, float]:
        """Waits until `enough` accepts the values of an instant query, and returns them. By default any will do."""
        return eventually(lambda: self.query(expression), enough, expression, seconds)

    def _ask(self, observation: str, **parameters: object) -> Any:
        """Returns the data of an API response. Raises AssertionError with the error that the API reports."""
        answer = _get(self.port, f"/api/v1/{observation}?{urllib.parse.urlencode(parameters)}")
        assert answer["status"] == "success", f"{answer.get('error')} in {parameters}"
        return answer["data"]


@dataclass(frozen=True)
class Alertmanager:
    """A running Alertmanager on a port of 127.0.0.1."""

    port: int

    def alerts(self, name: str | None = None) -> list[dict[str, Any]]:
        """Returns all alerts, including silenced and inhibited ones (`status`), or only those named `name`."""
        alerts: list[dict[str, Any]] = _get(self.port, "/api/v2/alerts")
        return [alert for alert in alerts if name in (None, alert["labels"]["alertname"])]


@contextlib.contextmanager
def prometheus(
    targets: Iterable[int],
    rules: Iterable[Path] = (),
    alertmanager: Alertmanager | None = None,
    history: Callable[[Path], None] | None = None,
    scrape_configs: list[dict[str, Any]] | None = None,
    every: str = "1s",
) -> Iterator[Prometheus]:
    """Runs Prometheus on exporters at these ports until the block ends. It scrapes and evaluates at the interval
    `every`, from 5 s after its start. history: writes blocks of old data into the given directory. scrape_configs:
    instead of the one for the targets.
    """
    port, manager = free_port(), alertmanager.port if alertmanager else None
    with _directory() as directory:
        program = monitoring.prometheus(
            find("prometheus"), port, directory, targets=targets, rules=rules, alertmanager=manager, every=every
        )
        if scrape_configs is not None:
            file = directory / "prometheus.yml"
            file.write_text(json.dumps(json.loads(file.read_text()) | {"scrape_configs": scrape_configs}))
        if history:
            (directory / "prometheus-data").mkdir()
            history(directory / "prometheus-data")
            program = replace(program, command=[*program.command, "--storage.tsdb.retention.time=1y"])
        with _running(program, directory):
            yield Prometheus(port)


def write_blocks(directory: Path, lines: Iterable[str]) -> None:
    """Writes samples in the format OpenMetrics into the data directory of a Prometheus, with promtool."""
    text = directory / "history.txt"
    with text.open("w") as file:
        file.writelines(lines)
    command = [str(find("promtool")), "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=1440h"]
    subprocess.run([*command, str(text), str(directory)], check=True, capture_output=True, timeout=600)
    text.unlink()


@contextlib.contextmanager
def alertmanager(configuration: Mapping[str, Any]) -> Iterator[Alertmanager]:
    """Runs Alertmanager until the block ends."""
    port = free_port()
    with _directory() as directory:
        program = monitoring.alertmanager(find("alertmanager"), port, directory, configuration)
        with _running(program, directory):
            yield Alertmanager(port)


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headroom-") as name:
        yield Path(name)


@contextlib.contextmanager
def _running(program: Program, directory: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        with contextlib.redirect_stdout(sys.stderr):  # a benchmark prints a table
            stack.enter_context(running([program], directory, cwd=directory))
        yield


def _get(port: int, path: str) -> Any:
    """Returns the JSON body of a GET request, for any HTTP status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
