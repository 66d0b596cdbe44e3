"""The API description is compared with the code and with sent documents."""

import asyncio
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import jsonschema
import msgspec
import pytest

from tests.support.captured_documents import NAMES
from tests.support.observations import proven
from tests.support.scripted_watch import ScriptedWatch, replayed
from tests.support.simulated_server import Server
from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.analysis.what_if.predict import ModelCheck, WhatIf, describe_check
from uwsgi_headroom.documents import build, openapi
from uwsgi_headroom.documents.predict import predict_what_if
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.record import Waits


@cache
def described() -> Any:
    return json.loads(openapi.render())


def validate(document: object, name: str) -> None:
    """Raise ValidationError if a document does not match the schema `name` of the description."""
    description = described()
    schema = {"$ref": f"#/components/schemas/{name}", "components": description["components"]}
    jsonschema.Draft202012Validator(schema).validate(document)


def sent(document: object) -> Any:
    return json.loads(msgspec.json.encode(document))


def test_every_schema_is_a_schema():
    description = described()
    schemas = description["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["required"] == list(schema["properties"])
        assert schema["description"].split(" ") == schema["description"].split(), "one line"
    references = {part.split('"')[0] for part in openapi.render().decode().split("#/components/schemas/")[1:]}
    assert references <= schemas.keys()


@pytest.mark.parametrize("name", NAMES)
def test_captured_documents_are_what_it_says(name):
    document = replayed(name).document()
    validate(sent(document), "ServerDocument")
    validate(sent(build.build_server_list([document], replayed(name).clock)), "Servers")
    validate(sent(build.extract_findings(document)), "Findings")


def test_documents_with_figures_and_without_are_what_it_says():
    """Documents under load, idle, without cores and host facts, down from the start, and down later match."""
    for server in (Server(), Server(cores=False, host=False, queue=None), Server(spawned=1)):
        watch = ScriptedWatch().seconds(server, 20, lambda _, server=server: server.serve(1, 50, cpu=0.01))
        validate(sent(watch.document()), "ServerDocument")
        validate(sent(watch.history()), "HistoryDocument")
        validate(sent(watch.read(ReadError("refused", "nobody"), 99.0).document()), "ServerDocument")
    with_memory = proven("threads_4x8_busy").reading
    assert with_memory
    validate(sent(ScriptedWatch().read(with_memory).document()), "ServerDocument")
    validate(sent(ScriptedWatch().document()), "ServerDocument")
    validate(sent(ScriptedWatch().history()), "HistoryDocument")


def test_a_wrong_document_is_found_out():
    document = sent(ScriptedWatch().seconds(Server(), 5).document())
    for wrong in (
        {**document, "state": "fine"},
        {**document, "verdict": None},
        {**document, "threads": {}},
        {**document, "windows": [{}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validate(wrong, "ServerDocument")


WAITS = Waits(threads={"cpu": 0.5, "backend": 3.0, "interpreter_lock": 0.3, "cpu_wait": 0.2}, busy=4)


def _watch(seconds: int = 200, waits: Waits | None = WAITS, each: Callable[[int], int] = lambda _: 10) -> ScriptedWatch:
    """A server of 4x4 with `each(second)` requests per second and worker, 100 ms and 12 ms of CPU each."""
    server = Server(processes=4, threads=4, cpus=2.0, idle=1.0, waits=waits)
    server.busy(1, 1, 1, 1)

    def serve(second: int) -> None:
        for worker_id in range(1, 5):
            server.serve(worker_id, each(second), each=0.1, cpu=0.012)

    return ScriptedWatch().seconds(server, seconds, serve)


def _predict(watch: ScriptedWatch, *settings: Setting, seconds: float = 60.0) -> WhatIf:
    return asyncio.run(predict_what_if(watch.watch, watch.clock, seconds, settings))


def test_the_document():
    """It has the settings in the order of the request, the observed one, the error, and what the model cannot know."""
    document = _predict(_watch(), Setting(8, 4), Setting(2, 8), Setting(4, 4))
    validate(sent(document), "WhatIf")
    assert document.refusal is None
    assert (document.setting, document.demands_measured) == ("4x4", True)
    assert document.peak == pytest.approx(40, rel=0.05)
    assert [(row.setting, row.is_observed) for row in document.predictions] == [
        ("8x4", False),
        ("2x8", False),
        ("4x4", True),
    ]
    assert document.today == document.predictions[2]
    assert [at.load for at in document.predictions[0].loads] == [1.0, 1.5]
    assert document.predictions[0].loads[0].total_time == pytest.approx(0.09, rel=0.2)
    assert document.check.response_time == pytest.approx(0.1)
    assert document.check.response_time_error is not None
    assert "backends" in document.cautions[0]


def test_the_grid_and_its_load():
    """Without a request for settings there is a grid. The load is the peak of the last hour, not that of the window."""
    document = _predict(_watch(70))
    assert 8 <= len(document.predictions) <= 12
    assert any(row.is_observed for row in document.predictions)
    document = _predict(_watch(400, each=lambda second: 30 if 60 <= second < 200 else 10), Setting(8, 2))
    assert document.peak == pytest.approx(120, rel=0.02)
    assert document.predictions[0].loads[1].throughput == pytest.approx(180, rel=0.02)
    assert document.check.throughput == pytest.approx(120, rel=0.02)


@pytest.mark.parametrize(
    ("watch", "why"),
    [
        (_watch(20, each=lambda _: 0), "No request was completed"),
        (ScriptedWatch(), "cannot be read"),
        (ScriptedWatch().seconds(Server(), 0), "no history yet"),
        (ScriptedWatch().seconds(Server(cores=False), 5), "stats-no-cores"),
        (ScriptedWatch().seconds(Server(host=False), 5), "another host"),
        (_watch(5).read(ReadError("refused", "nobody"), 99.0), "cannot be read"),
        (replayed("emperor"), "emperor"),
        (replayed("threads_4x8_busy"), "no history yet"),
    ],
    ids=["no requests", "never read", "one reading", "no cores", "no CPU", "down", "emperor", "replayed"],
)
def test_refusals(watch, why):
    document = _predict(watch, Setting(8, 4))
    validate(sent(document), "WhatIf")
    assert why in (document.refusal or "")
    assert (document.predictions, document.check, document.setting) == ((), None, None)


@pytest.mark.parametrize(
    ("response_time_error", "throughput_error", "words"),
    [
        (0.1, None, "has a response time of 110 ms, 10 % above the 100 ms observed."),
        (0.001, None, "has a response time of 110 ms, as observed."),
        (-0.2, 0.05, "20 % below the 100 ms observed, and a most throughput of 52.5 requests/s, 5.0 % above the 50.0"),
        (None, None, "its error is not known"),
    ],
)
def test_the_error_in_words(response_time_error, throughput_error, words):
    """The error stands beside the predictions, as what the model says and what was observed."""
    check = ModelCheck(
        throughput=50.0,
        response_time=0.1,
        predicted_throughput=52.5,
        predicted_response_time=0.11,
        throughput_error=throughput_error,
        response_time_error=response_time_error,
    )
    assert words in describe_check(check)
