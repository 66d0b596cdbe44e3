"""`check --code` says in which line of the application the time goes."""

import re

import msgspec
import pytest
from msgspec.structs import replace

from tests.check.documents import busy_server
from tests.check.test_check import clients
from tests.support.documents_with_times import code_line
from tests.support.exporter import run
from tests.support.real_uwsgi import APP, uwsgi
from uwsgi_headroom.check.reports import render_lines
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.documents.subjects import Code


@pytest.mark.integration
def test_the_line_that_sleeps():
    """The line that sleeps has nearly the whole time of a request; text and document say so."""
    source = APP.read_text().splitlines()
    with uwsgi("--processes", "2", "--threads", "2") as server, clients(*[server.http] * 3, path="/?io_ms=100"):
        ran = run("check", server.stats, "--seconds", "4", "--code", "--format", "json")
    document = msgspec.json.decode(ran.stdout, type=ServerDocument)
    first = document.code.lines[0]
    assert first.share > 0.8, document.code
    assert (first.file, first.states[0].state) == (str(APP), "sleep")
    assert "sleep" in source[first.line - 1]
    assert document.flow.response_time
    assert first.per_request
    assert first.per_request == pytest.approx(first.share * document.flow.response_time)
    place = f"{first.function} ({'/'.join(APP.parts[-2:])}:{first.line}): sleep"
    assert place in re.sub(r"\s+", " ", "\n".join(render_lines(document)))


def test_the_block_of_the_report():
    """Five lines at most are shown, then how much is in others; names of any length stay within 80 columns."""
    line = code_line(function="f" * 90, file=f"/srv/{'x' * 90}/orders.py", callee="psycopg2 execute", share=0.1)
    outside = replace(line, function="", file="", line=0, callee="", per_request=None)
    shown = Code(why=None, samples=5, threads=100.0, lines=(outside, *[line] * 8), unread=0.1, changed=0.02)
    text = list(render_lines(replace(busy_server(), code=shown)))
    assert max(map(len, text)) <= 80
    flat = "".join("".join(text).split())
    assert flat.count("/orders.py:3),inpsycopg2execute:backend10.0.0.5:5432") == 4
    assert "outsideofPythoncode:backend" in flat
    assert "40%inotherlines,10%notreadable,2.0%dropped." in flat
    assert "Code: not known. No right." in "\n".join(render_lines(replace(busy_server(), code=Code(why="no right"))))


def test_code_is_for_servers_that_check_watches():
    ran = run("check", "/run/none", "--code-prefix", "/srv")
    assert ran.returncode == 3
    assert "--code-prefix needs --code" in ran.stderr
