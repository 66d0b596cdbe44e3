"""`check --what-if`: the table, refusals, JSON, and arguments that are no settings."""

import json
import re

import pytest
from msgspec.structs import replace

from tests.check.documents import busy_server
from tests.check.test_check import clients
from tests.support.exporter import Exporter, exporter, run
from tests.support.predicted_settings import cut_off, document, setting
from tests.support.real_uwsgi import uwsgi, wait_until
from uwsgi_headroom.analysis.what_if.predict import WhatIf
from uwsgi_headroom.check import command, reports
from uwsgi_headroom.check.request import Request
from uwsgi_headroom.errors import ConfigError


def table(what_if: WhatIf) -> list[str]:
    lines = list(reports.render_lines(replace(busy_server(), what_if=what_if)))
    assert max(map(len, lines)) <= reports.WIDTH
    return lines[next(place for place, line in enumerate(lines) if line.startswith("What if")) :]


WHOLE = document()
SOME = replace(WHOLE, predictions=(setting(8, 4), setting(2, 4)))


def test_the_table():
    """The observed setting comes first, with a mark, once; a load beyond the maximum has words, not a figure."""
    lines = table(SOME)
    assert lines[1].split() == ["most", "limited", "at", "240/s", "at", "360/s"]
    assert [line.split() for line in lines[3:6]] == [
        ["4x8*", "320", "interpreters", "81", "ms", "too", "much", "1.6", "GB"],
        ["8x4", "640", "threads", "62", "ms", "70", "ms", "3.2", "GB"],
        ["2x4", "160", "threads", "too", "much", "too", "much", "800", "MB"],
    ]
    text = " ".join(" ".join(lines[6:]).split())
    assert "8 % below the 75 ms observed. 4 more workers do not fit. Requests wait 60 % of their time" in text
    assert sum("4x8*" in line for line in table(WHOLE)) == 1


def test_a_table_without_figures():
    """A load that was cut off has no time; a refusal stands where the table would be."""
    assert any(line.split()[-4:-2] == ["unknown", "unknown"] for line in table(cut_off()))
    refused = WhatIf(name="shop", time=1.0, refusal="No request was completed.")
    assert "What if: not known. No request was completed." in table(refused)
    servers = [replace(busy_server(), what_if=refused), busy_server("other")]
    assert "What if: not known. No request was completed." in list(reports.render_list(servers))


@pytest.mark.parametrize(
    ("settings", "form", "words"),
    [
        (("8x",), "text", "'8x' is not a setting; write processes x threads, such as 8x4"),
        (("8x4", "0x1"), "text", "processes can be 1 to 1024"),
        (("8x4,",), "json", "'' is not a setting"),
        (("8x4",), "nagios", "--what-if needs the format text or json"),
    ],
)
def test_arguments_that_are_refused(settings, form, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        command.run(Request(("/nowhere/stats",), format=form, what_if=settings))


def _seconds(watching: Exporter) -> float:
    window = json.loads(watching.get("/api/v2/servers/shop")[1])["window"]
    return float(window["seconds"]) if window else 0.0


@pytest.mark.integration
def test_a_real_server():
    """check watches a uWSGI and predicts; an exporter's page answers the same question from its history."""
    with (
        uwsgi("--processes", "2", "--threads", "4") as server,
        clients(*[server.http] * 4, path="/?cpu_ms=1&io_ms=100"),
    ):
        ran = run("check", server.stats, "--seconds", "4", "--what-if", "4x2", "--what-if", "1x8", "--format", "json")
        with exporter("--stats", f"shop={server.stats}") as watching:
            wait_until(lambda: _seconds(watching) >= 4, what="four seconds of history")
            page = f"http://127.0.0.1:{watching.port}/servers/shop"
            asked = run("check", page, "--what-if", "4x2,1x8", "--format", "json")
    for judged in (json.loads(ran.stdout), json.loads(asked.stdout)):
        predicted = judged["what_if"]
        assert predicted["refusal"] is None
        assert [row["setting"] for row in predicted["predictions"]] == ["4x2", "1x8"]
        assert predicted["setting"] == "2x4"
        # Four clients without a pause occupy four of eight threads.
        assert predicted["today"]["most_throughput"] > judged["flow"]["throughput"]
