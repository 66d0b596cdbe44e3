"""Request variables: off, they are skipped; on, only the method and the path are looked at."""

import json

import pytest

from uwsgi_headroom import stats
from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.routes import LONGEST_PATH, MOST_PATHS, OTHER, Shape, Templates
from uwsgi_headroom.stats import decoder
from uwsgi_headroom.stats.raw import Core, CoreWithVariables, RawDocument, RawWorker, RequestInfo

SECRET = "hunter2swordfish"
EXPORT = Shape("POST", ("export",))


def with_variables(variables, busy=1):
    """A document with one thread whose request has this JSON text as its variables."""
    core = b'{"id":0,"requests":3,"in_request":%d,"vars":%b,"req_info":{"request_start":1795250000}}' % (
        busy,
        variables,
    )
    worker = b'{"id":1,"pid":8,"accepting":1,"respawn_count":1,"status":"busy","cores":[{"id":0},%b]}' % core
    return b'{"version":"2.0.31","pid":7,"workers":[%b]}' % worker


def listed(*variables):
    """Variables as uWSGI writes them, with an empty text at the end."""
    return b"[\n" + b",\n".join(json.dumps(text).encode() for text in (*variables, "")) + b"\n\t\t]"


def worker_of(body, *, routes=True):
    snapshot = stats.decode(body, Templates() if routes else None)
    return snapshot.workers[0]


def shape_of(variables):
    """The shape of the request in the second thread."""
    worker = worker_of(with_variables(variables))
    assert worker.serving.keys() == worker.shapes.keys() == {1}
    return worker.shapes[1]


def test_the_method_and_the_path_make_the_shape():
    """They may be anywhere among the variables."""
    assert shape_of(listed("QUERY_STRING=a=1", "REQUEST_METHOD=POST", "HTTP_HOST=x", "PATH_INFO=/export")) == EXPORT
    assert shape_of(listed("PATH_INFO=/export", "REQUEST_METHOD=POST")) == EXPORT
    assert shape_of(listed("REQUEST_METHOD=POST", "PATH_INFO=")) == Shape("POST", ())


def test_the_uri_counts_only_without_a_path():
    """It counts up to the question mark, however long the query is."""
    uri = f"REQUEST_URI=/export?q={SECRET * 1000}"
    assert shape_of(listed("REQUEST_METHOD=POST", uri)) == EXPORT
    assert shape_of(listed("REQUEST_METHOD=POST", uri, "PATH_INFO=/login")) == Shape("POST", ("login",))
    assert shape_of(listed("REQUEST_METHOD=POST", uri, "PATH_INFO=/a@b")) == OTHER


def test_the_first_of_a_name_counts():
    """So a later variable of the same name changes nothing."""
    assert shape_of(listed("REQUEST_METHOD=POST", "PATH_INFO=/export", "PATH_INFO=/x", "REQUEST_METHOD=GET")) == EXPORT


@pytest.mark.parametrize(
    "header",
    [
        'HTTP_X="PATH_INFO=/faked"',
        'HTTP_X=","PATH_INFO=/faked","',
        '"PATH_INFO=/faked',
        'HTTP_X=\\"PATH_INFO=/faked\\',
        "HTTP_PATH_INFO=/faked",
        "HTTP_X=PATH_INFO=/faked",
        'HTTP_X=\n"PATH_INFO=/faked',
    ],
)
def test_a_header_cannot_pass_for_a_variable(header):
    """A client chooses the text of headers, and uWSGI escapes its quotation marks."""
    assert shape_of(listed(header, "REQUEST_METHOD=POST", "PATH_INFO=/export")) == EXPORT


def test_many_look_alikes_make_a_request_other():
    """A client that sends thousands gains nothing."""
    assert shape_of(listed('X="PATH_INFO=' * 5000, "REQUEST_METHOD=POST", "PATH_INFO=/export")) == OTHER


def test_the_paths_of_one_document_are_bounded():
    """A document has no more different shapes than that, and a path that repeats counts once."""
    cores = [b'{"in_request":1,"vars":["REQUEST_METHOD=GET","PATH_INFO=/a/%d"]}' % (i // 2) for i in range(8000)]
    worker = worker_of(b'{"workers":[{"pid":8,"accepting":1,"status":"busy","cores":[%b]}]}' % b",".join(cores))
    shapes = list(worker.shapes.values())
    assert [shape == OTHER for shape in shapes] == [False] * 2 * MOST_PATHS + [True] * 2 * MOST_PATHS


@pytest.mark.parametrize(
    "variables",
    [
        b"[]",
        b'[""]',
        b"null",
        b"7",
        b'"PATH_INFO=/x"',
        b"[[[[1]]]]",
        listed("REQUEST_METHOD=POST"),
        listed("PATH_INFO=/export"),
        listed("REQUEST_METHOD=post", "PATH_INFO=/export"),
        listed("REQUEST_METHOD=POST", "PATH_INFO=/" + "a" * LONGEST_PATH),
        listed("REQUEST_METHOD=POST", 'PATH_INFO=/a"b'),
        listed("REQUEST_METHOD=POST", "PATH_INFO=/a\u00e9"),
        listed("REQUEST_METHOD=POST", "PATH_INFO=/a\tb"),
    ],
)
def test_anything_else_is_other(variables):
    """A request whose method or path is missing or unusual has no route, and the document is decoded."""
    assert shape_of(variables) == OTHER


@pytest.mark.parametrize("junk", [b"\xff\xfe\x80", b"\x01\x02\x1f", b"\\u0041\\t\\\\", b"\xed\xa0\x80\x01"])
def test_raw_bytes_of_clients_do_no_harm(junk):
    """Control characters and text that is not UTF-8, in another variable and in the path."""
    assert shape_of(b'["HTTP_X=%b","REQUEST_METHOD=POST","PATH_INFO=/export",""]' % junk) == EXPORT
    assert shape_of(b'["REQUEST_METHOD=POST","PATH_INFO=/%b",""]' % junk) == OTHER
    large = b'["HTTP_X=%b","REQUEST_METHOD=POST","PATH_INFO=/export",""]' % (junk * 400_000)
    assert shape_of(large) == EXPORT


def test_idle_threads_have_no_shape():
    worker = worker_of(with_variables(listed("REQUEST_METHOD=POST", "PATH_INFO=/export"), busy=0))
    assert (worker.serving, worker.shapes) == ({}, {})


def test_off_no_variable_is_decoded(monkeypatch):
    """Without routes, the types that are decoded have no field for variables, and the other decoder is not used."""
    monkeypatch.setattr(decoder, "_route_decoder", None)
    body = with_variables(listed("REQUEST_METHOD=POST", "PATH_INFO=/export", f"HTTP_COOKIE={SECRET}"))
    assert worker_of(body, routes=False).shapes == {}
    parts = (RawDocument, RawWorker, Core, RequestInfo)
    fields = {field for part in parts for field in part.__struct_encode_fields__}
    assert {"workers", "cores", "in_request", "request_start"} <= fields
    assert "vars" not in fields
    assert "vars" in CoreWithVariables.__struct_encode_fields__


def test_on_only_the_shape_is_left():
    """Nothing else of the request is in the snapshot, nor in the error of a document that is refused."""
    variables = listed(
        "REQUEST_METHOD=POST",
        f"PATH_INFO=/reset/{SECRET}{SECRET}{SECRET}",
        f"HTTP_COOKIE={SECRET}",
        "REMOTE_ADDR=1.2.3.4",
    )
    body = with_variables(variables)
    snapshot = stats.decode(body, Templates())
    assert "reset" in repr(snapshot)
    assert SECRET not in repr(snapshot)
    assert "1.2.3.4" not in repr(snapshot)
    for broken in (body[:-3], body.replace(b'"requests":3', b'"requests":"x"'), body + b"x"):
        with pytest.raises(StatsError) as caught:
            stats.decode(broken, Templates())
        assert SECRET not in str(caught.value)
