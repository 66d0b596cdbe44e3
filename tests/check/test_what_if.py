"""`check --what-if`: the table, refusals, JSON, and arguments that are no settings."""

import json
import re

import pytest
from msgspec.structs import replace

from tests.check.documents import busy_server
from tests.check.test_check import clients
from tests.support.exporter import Exporter, exporter, run
from tests.support.real_uwsgi import uwsgi, wait_until
from uwsgi_headroom.analysis.what_if.predict import PredictedLoad
from uwsgi_headroom.check import command, reports
from uwsgi_headroom.check.request import Request
from uwsgi_headroom.documents.what_if import ModelCheck, PredictedSetting, WhatIf
from uwsgi_headroom.errors import ConfigError


def _load(load: float, total: float | None) -> PredictedLoad:
    return PredictedLoad(
        load=load,
        throughput=40 * load,
        sustained=total is not None,
        response_time=total,
        queue_wait=None if total is None else 0.0,
        total_time=total,
        threads=0.3,
        interpreters=0.2,
        cpu=0.5,
    )


def _setting(processes: int, threads: int, *loads: PredictedLoad, fits: bool | None = True) -> PredictedSetting:
    return PredictedSetting(
        setting=f"{processes}x{threads}",
        processes=processes,
        threads=threads,
        is_observed=processes == threads == 4,
        most_throughput=112.3,
        limit="interpreters",
        loads=loads,
        memory=60e6 * processes,
        fits=fits,
        memory_sentence=None if fits else f"{processes}x{threads}: 60 more workers do not fit.",
    )


DOCUMENT = WhatIf(
    name="shop",
    time=1.0,
    setting="4x4",
    seconds=60.0,
    peak=40.0,
    demands_measured=True,
    check=ModelCheck(
        throughput=40.0,
        response_time=0.1,
        predicted_throughput=40.0,
        predicted_response_time=0.097,
        throughput_error=None,
        response_time_error=-0.03,
        sentence="At 40 requests/s the model of the observed setting has a response time of 97 ms, 3 % below.",
    ),
    today=_setting(4, 4, _load(1.0, 0.097), _load(1.5, 0.11)),
    predictions=(
        _setting(8, 4, _load(1.0, 0.090), _load(1.5, 0.1)),
        _setting(64, 64, _load(1.0, 0.09), _load(1.5, None), fits=False),
    ),
    cautions=("Requests wait 83 % of their time for backends.",),
)


def test_the_table():
    """The observed setting comes first, with a mark; a load beyond the maximum has words instead of a figure."""
    lines = list(reports.render_lines(replace(busy_server(), what_if=DOCUMENT)))
    start = next(place for place, line in enumerate(lines) if line.startswith("What if"))
    table = lines[start:]
    assert max(map(len, table)) <= reports.WIDTH
    assert table[1].split() == ["most", "limited", "at", "40.0/s", "at", "60.0/s"]
    rows = [line.split() for line in table[3:6]]
    assert rows[0] == ["4x4*", "112", "interpreters", "97", "ms", "110", "ms", "240", "MB"]
    assert rows[1] == ["8x4", "112", "interpreters", "90", "ms", "100", "ms", "480", "MB"]
    assert rows[2] == ["64x64", "112", "interpreters", "90", "ms", "too", "much", "3.8", "GB"]
    text = " ".join(" ".join(table[6:]).split())
    assert "3 % below. 64x64: 60 more workers do not fit. Requests wait 83 % of their time for backends." in text


def test_a_table_without_figures():
    """A load that was cut off has no time; a refusal stands where the table would be."""
    unknown = dict.fromkeys(("response_time", "queue_wait", "total_time"))
    known = DOCUMENT.predictions[0]
    loads = tuple(replace(at, **unknown) for at in known.loads)
    document = replace(DOCUMENT, peak_is_floor=True, predictions=(replace(known, loads=loads),))
    lines = list(reports.render_lines(replace(busy_server(), what_if=document)))
    row = next(line.split() for line in lines if line.startswith("  8x4"))
    assert row == ["8x4", "112", "interpreters", "unknown", "unknown", "480", "MB"]
    document = replace(DOCUMENT, predictions=(*DOCUMENT.predictions, DOCUMENT.today))
    lines = list(reports.render_lines(replace(busy_server(), what_if=document)))
    assert sum("4x4*" in line for line in lines) == 1
    server = replace(busy_server(), what_if=WhatIf(name="shop", time=1.0, refusal="No request was completed."))
    for lines in (reports.render_lines(server), reports.render_list([server, busy_server("other")])):
        assert "What if: not known. No request was completed." in list(lines)


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
    for document in (json.loads(ran.stdout), json.loads(asked.stdout)):
        predicted = document["what_if"]
        assert predicted["refusal"] is None
        assert [row["setting"] for row in predicted["predictions"]] == ["4x2", "1x8"]
        assert predicted["setting"] == "2x4"
        # Four clients without a pause occupy four of eight threads.
        assert predicted["today"]["most_throughput"] > document["flow"]["throughput"]
