"""Writes a server's document to a file, as a record."""

from __future__ import annotations

import json
import os
import re
import time

import msgspec

from uwsgi_headroom.documents.schema import Server


def render_json(document: object) -> str:
    """Write JSON in ASCII, so that no name in it can affect a terminal."""
    return json.dumps(msgspec.to_builtins(document, str_keys=True), indent=2)


def write_json_file(server: Server, directory: str) -> str:
    """Write a document to a new file in a directory; returns a sentence with the path, or why writing failed."""
    name = re.sub(r"[^\w.-]+", "_", server.name, flags=re.ASCII)
    moment = time.strftime("%Y%m%dT%H%M%S", time.localtime(server.time))
    path = os.path.join(directory, f"uwsgi-headroom-{name}-{moment}.json")
    try:
        with open(path, "x", encoding="ascii") as file:
            file.write(render_json(server) + "\n")
    except OSError as error:
        return f"not written to {path}: {error.strerror}"
    return f"written to {path}"
