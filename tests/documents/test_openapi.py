"""The API description is compared with the code and with sent documents."""

import json
from functools import cache
from typing import Any

import jsonschema
import msgspec
import pytest

from tests.support.captured_documents import NAMES
from tests.support.observations import proven
from tests.support.scripted_watch import ScriptedWatch, replayed
from tests.support.simulated_server import Server
from uwsgi_headroom.documents import build, openapi
from uwsgi_headroom.errors import ReadError


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
