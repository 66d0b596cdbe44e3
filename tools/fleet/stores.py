"""The stores under test, each as the programs that it needs, in the order in which they start.

A store takes one scraper or a pair; the scrapers of a pair differ in the external label `replica`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.loopback import get
from app.programs import Program
from tools.fleet import vmalert_rules
from tools.fleet.context import Context
from tools.support.monitoring import find

LOOKBACK = "30s"
"""How far behind the clock vmalert asks. The samples of one scrape arrive in several parts through remote write: a rule
that is evaluated at once sees some workers with their last sample and others without."""


@dataclass(frozen=True)
class Store:
    """A store's programs, and the name of the one that answers queries."""

    programs: list[Program]
    queried: str


def prometheus(context: Context, replicas: Sequence[str]) -> Store:
    """One Prometheus, which also evaluates the rules."""
    return Store([_prometheus(context, "prometheus", replicas[0], rules=True)], "prometheus")


def victoriametrics(context: Context, replicas: Sequence[str]) -> Store:
    """A Prometheus in agent mode for each replica, VictoriaMetrics, and vmalert."""
    store = context.address("victoria-metrics")
    programs = [
        Program(
            "victoria-metrics",
            "starting VictoriaMetrics",
            [
                "victoria-metrics",
                f"-httpListenAddr={store}",
                f"-storageDataPath={context.data('victoria-metrics')}",
                f"-dedup.minScrapeInterval={context.interval}s",
                "-search.maxUniqueTimeseries=3000000",
                "-search.maxQueryDuration=120s",
                "-retentionPeriod=1y",
            ],
            lambda: get(context.port("victoria-metrics"), "/health") is not None,
        )
    ]
    programs += [_agent(context, f"agent-{replica}", replica, f"http://{store}/api/v1/write") for replica in replicas]
    if context.rules:
        programs.append(_vmalert(context, store))
    return Store(programs, "victoria-metrics")


def thanos(context: Context, replicas: Sequence[str]) -> Store:
    """A Prometheus with a sidecar for each replica, the querier, and the ruler, which keeps what it records."""
    programs: list[Program] = []
    endpoints = []
    for replica in replicas:
        name, sidecar = f"prometheus-{replica}", f"sidecar-{replica}"
        programs.append(_prometheus(context, name, replica, rules=False))
        programs.append(
            _thanos(
                context,
                sidecar,
                "sidecar",
                f"--prometheus.url=http://{context.address(name)}",
                f"--tsdb.path={context.data(name)}",
            )
        )
        endpoints.append(f"--endpoint={context.address(sidecar + '-grpc')}")
    endpoints.append(f"--endpoint={context.address('ruler-grpc')}")
    labels = ("--query.replica-label=replica", "--query.replica-label=ruler")
    programs.append(_thanos(context, "querier", "query", *labels, "--query.timeout=2m", *endpoints))
    every = f"--eval-interval={context.interval}s"
    rules = [f"--rule-file={file.resolve()}" for file in context.rules]
    programs.append(
        _thanos(
            context,
            "ruler",
            "rule",
            f"--data-dir={context.data('ruler')}",
            '--label=ruler="a"',
            every,
            f"--query=127.0.0.1:{context.port('querier')}",
            *rules,
        )
    )
    return Store(programs, "querier")


KINDS: dict[str, Callable[[Context, Sequence[str]], Store]] = {
    "prometheus": prometheus,
    "victoriametrics": victoriametrics,
    "thanos": thanos,
}


def _vmalert(context: Context, store: str) -> Program:
    rules = vmalert_rules.write(context.rules, context.directory / "vmalert-rules")
    return Program(
        "vmalert",
        "starting vmalert",
        [
            "vmalert",
            f"-httpListenAddr={context.address('vmalert')}",
            f"-rule={rules}/*.yaml",
            f"-datasource.url=http://{store}",
            f"-remoteWrite.url=http://{store}",
            f"-remoteRead.url=http://{store}",
            f"-notifier.url=http://{store}/no-alertmanager",
            f"-evaluationInterval={context.interval}s",
            f"-datasource.lookback={LOOKBACK}",
        ],
        lambda: get(context.port("vmalert"), "/health") is not None,
    )


def _prometheus(context: Context, name: str, replica: str, *, rules: bool) -> Program:
    document = context.scrape({"replica": replica})
    if rules:
        document["rule_files"] = [str(file.resolve()) for file in context.rules]
    return Program(
        name,
        f"starting {name}",
        [
            find("prometheus"),
            f"--config.file={context.write(f'{name}.yml', document)}",
            f"--storage.tsdb.path={context.data(name)}",
            f"--web.listen-address={context.address(name)}",
            "--storage.tsdb.min-block-duration=2h",
            "--storage.tsdb.max-block-duration=2h",
            "--web.enable-admin-api",
            "--query.timeout=2m",
            "--log.level=warn",
        ],
        lambda: get(context.port(name), "/-/ready") is not None,
    )


def _agent(context: Context, name: str, replica: str, url: str) -> Program:
    """A Prometheus in agent mode. The label that tells the scrapers apart is dropped: VictoriaMetrics takes two samples
    for copies only if all their labels are equal."""
    document = context.scrape({"replica": replica})
    document["remote_write"] = [{"url": url, "write_relabel_configs": [{"action": "labeldrop", "regex": "replica"}]}]
    return Program(
        name,
        f"starting {name}",
        [
            find("prometheus"),
            "--enable-feature=agent",
            f"--config.file={context.write(f'{name}.yml', document)}",
            f"--storage.agent.path={context.data(name)}",
            f"--web.listen-address={context.address(name)}",
            "--log.level=warn",
        ],
        lambda: get(context.port(name), "/-/ready") is not None,
    )


def _thanos(context: Context, name: str, command: str, *options: str | Path) -> Program:
    return Program(
        name,
        f"starting Thanos {name}",
        [
            "thanos",
            command,
            f"--http-address={context.address(name)}",
            f"--grpc-address={context.address(name + '-grpc')}",
            "--log.level=warn",
            *options,
        ],
        lambda: get(context.port(name), "/-/ready") is not None,
    )
