"""Responses that violate HTTP, that the exporter must not follow, or that end differently than announced."""

from __future__ import annotations

import gzip

from tests.support.hostile.bodies import GOOD
from tests.support.hostile.case import SHORT, SMALL, UP, Case, Expected, at, down
from tests.support.hostile.connections import answers, drips, endless, stays_open_after
from tests.support.hostile.http_answers import HEAD, compressed_bomb, head, response
from tests.support.hostile.listeners import on_http
from tests.support.hostile.peer import Behaviour

BAD = down("http")
CHUNKED = "Transfer-Encoding: chunked"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
SIZE = len(GOOD)


def chunks(*lines: bytes) -> bytes:
    """Joins the lines of a chunked body."""
    return b"".join(line + b"\r\n" for line in lines)


ANSWERS: dict[str, tuple[Behaviour, Expected]] = {
    "no HTTP at all": (answers(b"hello\r\n\r\n"), BAD),
    "a raw document": (answers(GOOD), BAD),
    "a head that is cut": (answers(HEAD[:-3]), BAD),
    "a status line alone": (answers(b"HTTP/1.0 200 OK\r\n"), BAD),
    "HTTP/0.9": (answers(b"\r\n\r\n" + GOOD), BAD),
    "HTTP of version 9": (answers(HEAD.replace(b"1.0", b"9.9", 1) + GOOD), UP),
    "HTTP/2": (answers(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + GOOD), BAD),
    "a TLS alert": (answers(b"\x15\x03\x01\x00\x02\x02\x28"), BAD),
    "no status": (answers(b"HTTP/1.1 OK\r\n\r\n" + GOOD), BAD),
    "a status of four digits": (response("2000 OK"), BAD),
    "a header of 100 kB": (response("200 OK", "X: " + "a" * 100_000), BAD),
    "ten thousand headers": (response("200 OK", *["X: a"] * 10_000), BAD),
    "a header without a colon": (response("200 OK", "nonsense"), BAD),
    "a header with a zero byte": (response("200 OK", "X: a\0b"), BAD),
    "no content": (response("204 No Content", body=b""), BAD),
    "partial content": (response("206 Partial Content"), BAD),
    "not modified": (response("304 Not Modified", body=b""), BAD),
    "a redirect to another host": (response("301 Moved", "Location: http://192.0.2.1/"), BAD),
    "a redirect to itself": (response("302 Found", "Location: /"), BAD),
    "a redirect to a file": (response("307 Temporary Redirect", "Location: file:///etc/passwd"), BAD),
    "unauthorised": (response("401 Unauthorized", "WWW-Authenticate: Basic"), down("permission")),
    "forbidden": (response("403 Forbidden"), down("permission")),
    "an internal error": (response("500 Internal Server Error"), BAD),
    "unavailable": (response("503 Service Unavailable", "Retry-After: 0"), BAD),
    "an upgrade": (response("101 Switching Protocols", "Upgrade: h2c", "Connection: upgrade"), BAD),
    "three informational answers": (answers(CONTINUE * 3 + HEAD + GOOD), UP),
    "four informational answers": (answers(CONTINUE * 4 + HEAD + GOOD), BAD),
    "chunks": (response("200 OK", CHUNKED, body=chunks(b"%x" % SIZE, GOOD, b"0", b"")), BAD),
    "chunks of no size": (response("200 OK", CHUNKED, body=chunks(b"zz", GOOD, b"0", b"")), BAD),
    "chunks below zero": (response("200 OK", CHUNKED, body=chunks(b"-1", GOOD)), BAD),
    "a chunk of 2**64": (response("200 OK", CHUNKED, body=chunks(b"f" * 16, GOOD)), BAD),
    "another transfer encoding": (response("200 OK", "Transfer-Encoding: gzip"), BAD),
    "a length that is right": (response("200 OK", f"Content-Length: {SIZE}"), UP),
    "a length that is right, twice": (response("200 OK", *[f"Content-Length: {SIZE}"] * 2), UP),
    "two lengths": (response("200 OK", f"Content-Length: {SIZE}", "Content-Length: 7"), BAD),
    "a length too large": (response("200 OK", f"Content-Length: {SIZE + 1}"), down("truncated")),
    "a length of 2**63": (response("200 OK", f"Content-Length: {2**63}"), down("truncated")),
    "a length of 5,000 digits": (response("200 OK", "Content-Length: " + "9" * 5000), BAD),
    "a length too small": (response("200 OK", f"Content-Length: {SIZE - 1}"), down("truncated")),
    "a length of zero": (response("200 OK", "Content-Length: 0"), down("empty")),
    "a length below zero": (response("200 OK", "Content-Length: -1"), BAD),
    "a length that is no number": (response("200 OK", "Content-Length: all"), BAD),
    "a length in other digits": (response("200 OK", "Content-Length: \u00b2"), BAD),
    "a length and chunks": (response("200 OK", f"Content-Length: {SIZE}", CHUNKED), BAD),
    "bytes behind its length": (response("200 OK", f"Content-Length: {SIZE}", body=GOOD + b"x" * 10_000), UP),
    "two answers": (answers((HEAD + GOOD) * 2), down("not_json")),
    "a page": (response("200 OK", "Content-Type: text/html", body=b"<html>" * 1000), down("not_json")),
    "a compressed answer": (response("200 OK", "Content-Encoding: gzip", body=gzip.compress(GOOD)), down("not_json")),
    "a compressed bomb": (
        response("200 OK", "Content-Encoding: gzip", body=compressed_bomb(64)),
        down("not_json"),
    ),
}

CASES: tuple[Case, ...] = (
    *(at(f"{name} (http)", on_http(behave), expected) for name, (behave, expected) in ANSWERS.items()),
    at("an endless header", on_http(endless(HEAD[:-2] + b"X: ", b"a")), down("too_large"), SMALL),
    at("endless headers", on_http(endless(HEAD[:-2], b"X: a\r\n")), down("too_large"), SMALL),
    at("an endless status line", on_http(endless(b"HTTP/1.0 200 ", b"a")), down("too_large"), SMALL),
    at("endless informational answers", on_http(endless(b"", CONTINUE)), down("too_large"), SMALL),
    at("endless empty lines", on_http(endless(b"", b"\r\n")), down("too_large"), SMALL),
    at("endless chunks", on_http(endless(head("200 OK", CHUNKED), b"1\r\na\r\n")), down("too_large"), SMALL),
    at("slow headers", on_http(drips(HEAD + GOOD, 0.1)), down("timeout"), SHORT),
    at(
        "kept alive although asked to close",
        on_http(stays_open_after(head("200 OK", "Connection: keep-alive", f"Content-Length: {SIZE}") + GOOD)),
        down("timeout"),
        SHORT,
    ),
    at("no TLS where some is wanted", on_http(answers(HEAD + GOOD), "https"), down("unreachable")),
)
