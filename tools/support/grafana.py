"""Runs a real Grafana with the files of deploy/grafana, on loopback and without a login."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from app import loopback
from app.programs import Program, running
from tools.environments import ROOT

PLACE = "/var/lib/grafana/dashboards/uwsgi-headroom"
"""The directory of the dashboards, as deploy/grafana names it."""
USER = "nobody"
"""Who runs Grafana, if root would."""
QUIET = {
    "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
    "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
    "GF_ANALYTICS_REPORTING_ENABLED": "false",
    "GF_NEWS_NEWS_FEED_ENABLED": "false",
    "GF_PLUGINS_PREINSTALL_DISABLED": "true",
}
"""Settings without which Grafana asks other machines."""


@contextlib.contextmanager
def grafana(command: Sequence[str], prometheus: str) -> Iterator[str]:
    """Runs Grafana until the block ends, with the dashboards of dashboards/out; yields its address.

    command: the program and its arguments, such as `grafana server --homepath /usr/share/grafana`. prometheus: the
    address of its data source. Grafana answers once it has read the files, and then without a login.
    """
    port = loopback.free_port()
    with tempfile.TemporaryDirectory(prefix="grafana-") as name:
        directory = Path(name)
        shutil.copytree(ROOT / "dashboards" / "out", directory / "dashboards")
        shutil.copytree(ROOT / "deploy" / "grafana" / "provisioning", directory / "provisioning")
        provider = directory / "provisioning" / "dashboards" / "uwsgi-headroom.yaml"
        provider.write_text(provider.read_text().replace(PLACE, str(directory / "dashboards")))
        program = Program(
            name="grafana",
            sentence="starting Grafana",
            command=[*_as_user(directory), *command],
            ready=lambda: "uwsgi-headroom-server" in (loopback.get(port, "/api/search?query=uWSGI") or ""),
            variables={
                **QUIET,
                "PROMETHEUS_URL": prometheus,
                "GF_AUTH_ANONYMOUS_ENABLED": "true",
                "GF_LOG_LEVEL": "warn",
                "GF_PATHS_DATA": str(directory / "data"),
                "GF_PATHS_LOGS": str(directory / "logs"),
                "GF_PATHS_PLUGINS": str(directory / "plugins"),
                "GF_PATHS_PROVISIONING": str(directory / "provisioning"),
                "GF_SERVER_HTTP_ADDR": "127.0.0.1",
                "GF_SERVER_HTTP_PORT": str(port),
            },
        )
        with running([program], directory, cwd=directory):
            yield f"http://{loopback.address(port)}"


def _as_user(directory: Path) -> list[str]:
    """The begin of a command that runs the rest as an ordinary user, who may write to the directory."""
    if os.geteuid() != 0:
        return []
    for path in (directory, *directory.rglob("*")):
        shutil.chown(path, USER)
    return ["setpriv", f"--reuid={USER}", f"--regid={pwd.getpwnam(USER).pw_gid}", "--clear-groups"]
