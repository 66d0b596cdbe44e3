"""Generates the OpenAPI description of the API from the documents' types, when it is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from uwsgi_headroom import documents
from uwsgi_headroom.analysis.what_if.measured import MOST_SETTINGS
from uwsgi_headroom.analysis.what_if.predict import WhatIf
from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.documents.deploys import LONGEST_COMPARED, ComparisonDocument
from uwsgi_headroom.documents.history import MOST_POINTS, HistoryDocument
from uwsgi_headroom.documents.schema import Findings, JournalDocument, Problem, ServerDocument, Servers
from uwsgi_headroom.history.events import MOST_EVENTS
from uwsgi_headroom.watch.deploy_watch import AFTER_SECONDS, BEFORE_SECONDS

VERSION = "2.0.0"
"""Version of the API: breaking changes raise the first number, new keys the second."""

_REF = "#/components/schemas/{name}"
_DOCUMENTS: tuple[type, ...] = (
    Servers,
    ServerDocument,
    Findings,
    HistoryDocument,
    JournalDocument,
    WhatIf,
    ComparisonDocument,
    Problem,
)


def render() -> bytes:
    """Write the description as `/api/v2/openapi.json` has it. Takes 25 ms, because all schemas are built."""
    return msgspec.json.format(msgspec.json.encode(describe_api()), indent=2) + b"\n"


def describe_api() -> dict[str, Any]:
    """Generate the description as an OpenAPI 3.1 document."""
    _, components = msgspec.json.schema_components(_DOCUMENTS, ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "uwsgi-headroom",
            "version": VERSION,
            "summary": "How much more load a uWSGI server can take, which limit comes first, and what to change.",
            "description": _plain(documents.__doc__ or ""),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _paths(),
        "components": {"schemas": {name: _whole(schema) for name, schema in sorted(components.items())}},
    }


def _whole(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a sent document: every key is required, even if decoding accepts a document without it."""
    properties = {
        key: _null_last({word: of for word, of in property_schema.items() if word != "default"})
        for key, property_schema in schema["properties"].items()
    }
    whole = {**schema, "properties": properties, "required": list(properties)}
    return whole | {"description": _plain(schema["description"])} if "description" in schema else whole


def _null_last(property_schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose alternatives end with null, as newer versions of msgspec write it."""
    if "anyOf" not in property_schema:
        return property_schema
    return property_schema | {"anyOf": sorted(property_schema["anyOf"], key=lambda of: of == {"type": "null"})}


def _plain(docstring: str) -> str:
    return " ".join(docstring.split())


def _paths() -> dict[str, Any]:
    one = "/api/v2/servers/{server}"
    return {
        "/api/v2/servers": _get("Every server, servers that are down first", Servers, _WINDOW),
        "/api/v2/events": _events("The list of servers, once a second", Servers, _WINDOW),
        one: _get("One server", ServerDocument, _SERVER, _WINDOW),
        f"{one}/findings": _get("The findings about a server", Findings, _SERVER, _WINDOW),
        f"{one}/history": _get("The last hour of a server, in columns", HistoryDocument, _SERVER, *_HISTORY),
        f"{one}/journal": _get("The events of a server", JournalDocument, _SERVER, *_JOURNAL),
        f"{one}/what-if": _get("Predictions for other settings", WhatIf, _SERVER, _SETTINGS),
        f"{one}/compare": _get("What changed around a moment", ComparisonDocument, _SERVER, *_COMPARE),
        f"{one}/events": _events("The document of a server, once a second", ServerDocument, _SERVER, _WINDOW),
    }


def _parameter(name: str, description: str, kind: str = "number", **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": {"type": kind, **schema}}


def _range(least: float) -> dict[str, Any]:
    most = HISTORY_SECONDS
    return _parameter("seconds", "Length of the range, in seconds.", minimum=least, maximum=most, default=most)


def _compared(name: str, description: str, default: float) -> dict[str, Any]:
    return _parameter(name, description, minimum=60, maximum=LONGEST_COMPARED, default=default)


_NAME = "The server's name. A slash in the name may be written as a slash or as %2F."
_SERVER = {**_parameter("server", _NAME, "string"), "in": "path", "required": True}
_WINDOW = _parameter(
    "window",
    "Length in seconds of the window of the figures: one of the configured windows, by default the shortest. `windows` "
    "in a server's document lists them.",
)
_HISTORY = [
    _range(2),
    _parameter(
        "points",
        "Maximum number of slices. The length of a slice is seconds / points, rounded up to a second.",
        "integer",
        minimum=1,
        maximum=MOST_POINTS,
        default=240,
    ),
    _parameter("until", "End of the range in epoch seconds; by default now."),
]
_JOURNAL = [
    _range(0),
    _parameter("limit", "Maximum number of events.", "integer", minimum=1, maximum=MOST_EVENTS, default=MOST_EVENTS),
    _parameter("before", "Only events before this place: `next` of the answer before.", "string"),
]
_SETTINGS = _parameter(
    "settings",
    f"Processes x threads, separated by commas, at most {MOST_SETTINGS}; by default some around the observed setting. "
    "A prediction takes up to 0.1 s of CPU, and is then kept for a minute.",
    "string",
    examples=["8x4,4x8"],
)
_COMPARE = [
    _parameter("around", "The moment, in epoch seconds; by default the last reload."),
    _compared("before", "Seconds before it that are compared.", BEFORE_SECONDS),
    _compared(
        "after", "Seconds after it that are compared, or until now; of these, the start stands apart.", AFTER_SECONDS
    ),
]
_WHY = {
    "400": "A parameter is invalid",
    "404": "No server has this name",
    "503": "Too many streams are open, or too many answers are being built: retry after the seconds in Retry-After",
}


def _get(summary: str, document: type, *parameters: dict[str, Any]) -> dict[str, Any]:
    return _operation(summary, "application/json", _schema(document), parameters)


def _events(summary: str, document: type, *parameters: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "string",
        "description": f"Server-Sent Events without a name; the data of each is a {document.__name__} document. "
        "The first arrives at once. A client that reads too slowly misses some.",
        "contentMediaType": "application/json",
        "contentSchema": _schema(document),
    }
    return _operation(summary, "text/event-stream", schema, parameters)


def _operation(
    summary: str, media_type: str, schema: dict[str, Any], parameters: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    responses = {"200": {"description": summary, "content": {media_type: {"schema": schema}}}}
    responses |= {
        status: {"description": why, "content": {"application/json": {"schema": _schema(Problem)}}}
        for status, why in _WHY.items()
        if status != "404" or _SERVER in parameters
    }
    return {"get": {"summary": summary, "parameters": parameters, "responses": responses}}


def _schema(document: type) -> dict[str, Any]:
    return {"$ref": _REF.format(name=document.__name__)}
