"""`python3 -m dashboards` writes and checks files, with the thresholds of the rules."""

import sys

import pytest

from tests.support import promtool

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="grafana-foundation-sdk needs Python 3.11")


def run(*arguments):
    from dashboards.__main__ import main  # noqa: PLC0415  (cannot be imported by Python 3.10)

    return main(list(arguments))


def test_drift_is_named(tmp_path, capsys):
    assert run("--out", str(tmp_path)) == 0
    assert run("--check", "--out", str(tmp_path)) == 0
    (tmp_path / "fleet.json").write_text("{}")
    assert run("--check", "--out", str(tmp_path)) == 1
    assert capsys.readouterr().err == f"{tmp_path}/fleet.json differs from the output of `python3 -m dashboards`\n"


def test_colours_change_where_alerts_do():
    from dashboards import signal  # noqa: PLC0415  (as above)

    rules = (promtool.RULES / "alerts.yaml").read_text() + (promtool.RULES / "recording.yaml").read_text()
    for condition in (
        f") < {signal.HEADROOM_LOW}",
        f"server:uwsgi_hot_worker_ratio:ratio_rate5m > {signal.UNEVEN}",
        f">= {signal.INTERPRETER_BUSY}\n",
        f"server:uwsgi_slo_burn_rate:ratio_rate6h >= {signal.BURNS_HOURS:g} ",
        f"server:uwsgi_slo_burn_rate:ratio_rate1h >= {signal.BURNS_AN_HOUR} ",
        f"count_over_time(server:uwsgi_utilization:p95_1d[28d:1d]) >= {signal.FORECAST_DAYS}\n",
    ):
        assert condition in rules
