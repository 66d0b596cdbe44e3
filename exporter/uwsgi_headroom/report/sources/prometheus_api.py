"""Asks a Prometheus for ranges of values over HTTP: bounded pieces, one after the other, each repeated once."""

from __future__ import annotations

import http.client
import ipaddress
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import isfinite
from typing import Any, Literal
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from uwsgi_headroom import __version__
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.source import HttpAccess, basic

_PAGES = re.compile(r"/(?:graph|query|api/v1(?:/.*)?|api)?/?$")
"""Ends of the URLs of Prometheus' own pages, which people copy from their browser."""

_HEADER = re.compile(r"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(?P<value>[\x20-\x7e\t]*)")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A Prometheus. url: without login, to be shown; headers: to send, secrets included."""

    url: str
    context: ssl.SSLContext | None
    headers: Sequence[tuple[str, str]] = field(repr=False)


def make_endpoint(url: str, access: HttpAccess | None = None, headers: Sequence[str] = ()) -> Endpoint:
    """Check and combine the options of a Prometheus. Raises ConfigError, whose message contains no secret."""
    shown, from_url = _split_url(url)
    access = access or HttpAccess()
    logins = [("Authorization", login) for login in (from_url, access.authorization) if login]
    sent = (*map(_parse_header, headers), *logins)
    if sum(name.lower() == "authorization" for name, _ in sent) > 1:
        raise ConfigError("give one login for Prometheus: in its URL, in the file of --http.config.file, or a header")
    if access.server_name:
        raise ConfigError("--http.config.file: report checks the host of the URL, not another server_name")
    return Endpoint(shown, access.context, sent)


def _split_url(url: str) -> tuple[str, str]:
    """The URL without login and without the page, and the login as a header's value; empty without one."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or parts.scheme not in ("http", "https") or re.search(r"[\s\x00-\x1f]", host):
        raise ConfigError("--prometheus: expected a URL such as http://127.0.0.1:9090 or https://prometheus.example")
    netloc = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    shown = urlunsplit((parts.scheme, netloc, _PAGES.sub("", parts.path), "", ""))
    return shown, "" if parts.username is None else basic(unquote(parts.username), unquote(parts.password or ""))


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _parse_header(text: str) -> tuple[str, str]:
    match = _HEADER.fullmatch(text)
    if not match:
        raise ConfigError('--prometheus-header: expected "NAME: VALUE", such as "X-Scope-OrgID: shop"')
    return match["name"], match["value"].strip()


Trouble = Literal["unreachable", "timeout", "certificate", "login", "not_prometheus", "too_much", "refused", "busy"]
"""Why a request failed. unreachable: no answer, or a part of it. timeout, too_much: a shorter range may work. refused:
the request is wrong. busy: a later attempt may work."""


class PrometheusError(HeadroomError):
    """A Prometheus did not give values."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.trouble: Trouble = trouble


_CLOSED = "the connection was closed before the answer was complete"
_FAILURES: Sequence[tuple[type[Exception], Trouble, str]] = (
    (
        ssl.SSLCertVerificationError,
        "certificate",
        "its certificate is not accepted: {why}; if it is your own, give its authority with --http.config.file",
    ),
    (ssl.SSLError, "certificate", "no TLS connection: does it speak https?"),
    (TimeoutError, "unreachable", "no answer within {seconds:.0f} s"),
    (socket.gaierror, "unreachable", "the host's name is not known"),
    (ConnectionRefusedError, "unreachable", "nothing listens there"),
    (ConnectionError, "unreachable", _CLOSED),
    (http.client.IncompleteRead, "unreachable", _CLOSED),
    (http.client.HTTPException, "not_prometheus", "the answer is not HTTP; does it need https?"),
    (OSError, "unreachable", "{why}"),
    (Exception, "unreachable", "it cannot be reached"),
)
"""The first row that fits says it."""


def explain_failure(url: str, error: Exception, seconds: float) -> PrometheusError:
    """The error of a request that was not answered within `seconds`, or not completely."""
    reason = getattr(error, "reason", error)
    reason = reason if isinstance(reason, Exception) else error
    why = getattr(reason, "verify_message", "") or getattr(reason, "strerror", "") or "it cannot be reached"
    trouble, text = next((trouble, text) for kind, trouble, text in _FAILURES if isinstance(reason, kind))
    return PrometheusError(trouble, f"{url}: {text.format(why=why, seconds=seconds)}")


_ANSWERS: Mapping[Trouble, str] = {
    "login": "refuses access, or needs a login, or another one (HTTP {status}): give it with --http.config.file",
    "too_much": "the query is too much for it (HTTP {status}){because}",
    "timeout": "the query took too long (HTTP {status}){because}",
    "busy": "cannot answer (HTTP {status}){because}",
    "refused": "refuses the query (HTTP {status}){because}",
    "not_prometheus": "answers with {kind} (HTTP {status}), not as the API of a Prometheus: give its URL without a "
    "page, such as {root}, or with the path at which a proxy serves it",
}

_REDIRECTS = "redirects to another page (HTTP {status}): give the URL at which Prometheus itself answers"


def explain_answer(url: str, status: int, content_type: str, said: str) -> PrometheusError:
    """The error of an answer without values. said: the reason that Prometheus gives, or an empty text."""
    trouble, parts = _judge_answer(status, said), urlsplit(url)
    is_moved = trouble == "not_prometheus" and HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
    what = (_REDIRECTS if is_moved else _ANSWERS[trouble]).format(
        status=status,
        because=f": {said}" if said else "",
        kind="a web page" if "html" in content_type else "something else",
        root=f"{parts.scheme}://{parts.netloc}",
    )
    return PrometheusError(trouble, f"{url}: {what}")


def _judge_answer(status: int, said: str) -> Trouble:
    logins = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED)
    slow = (HTTPStatus.GATEWAY_TIMEOUT, HTTPStatus.REQUEST_TIMEOUT)
    tests: tuple[tuple[Trouble, bool], ...] = (
        ("login", status in logins),
        ("too_much", "maximum resolution" in said or "too many samples" in said),
        ("too_much", status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        ("timeout", status in slow or "timed out" in said or "timeout" in said),
        ("busy", status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS),
        ("refused", bool(said)),
    )
    return next((trouble for trouble, holds in tests if holds), "not_prometheus")


QUERY_SECONDS = 60.0
"""The time that Prometheus has for a query."""

_SPARE_SECONDS = 15.0
"""For the way there and back, and for a proxy that waits for Prometheus."""

LARGEST_ANSWER = 64 * 1024 * 1024
_LARGEST_ERROR = 64 * 1024
_PART = 64 * 1024


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


SMALLEST_PIECE = 6 * 3600.0
"""Seconds: a piece that is too much for Prometheus is halved down to this."""

_PAUSE = 2.0
"""Seconds before a request is repeated."""

_REPEATED: frozenset[Trouble] = frozenset(("unreachable", "busy"))
_HALVED: frozenset[Trouble] = frozenset(("timeout", "too_much"))
_LONGEST_MESSAGE = 300

Labels = Mapping[str, str]


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    result: list[_Series] = []


class _Document(msgspec.Struct):
    """The answer to a query of a range: https://prometheus.io/docs/prometheus/latest/querying/api/."""

    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] = []


class Series(Struct, frozen=True):
    """One series of an answer: the values that there are, by the times that were asked for."""

    labels: Labels
    values: Mapping[float, float]


class PrometheusApi:
    """The API of one Prometheus. Follows no redirect: it would lead to a login page, or send the login elsewhere.
    clock_ahead: seconds by which its clock was ahead at the last answer."""

    def __init__(
        self,
        endpoint: Endpoint,
        seconds: float = QUERY_SECONDS + _SPARE_SECONDS,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._endpoint, self._seconds, self._pause = endpoint, seconds, pause
        self.warnings: list[str] = []
        self.clock_ahead = 0.0
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
        if is_loopback(urlsplit(endpoint.url).hostname or ""):
            handlers.append(urllib.request.ProxyHandler({}))  # a proxy of the environment is for other hosts
        if endpoint.url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=endpoint.context))
        self._opener = urllib.request.build_opener(*handlers)

    @property
    def url(self) -> str:
        return self._endpoint.url

    def read_clock(self) -> float:
        """Ask for the time by the clock of Prometheus (epoch seconds): it shows whether it answers."""
        now = time.time() // 60 * 60
        self._ask("vector(1)", now, 1, 60.0)
        return time.time() + self.clock_ahead

    def query_range(self, expression: str, first: float, last: float, step: float) -> list[Series]:
        """The values at first, first + step, ... last (epoch seconds). What is too much at once is asked for in halves:
        there may be several series with the same labels. Raises PrometheusError."""
        points = round((last - first) / step) + 1
        try:
            return self._ask(expression, first, points, step)
        except PrometheusError as error:
            if error.trouble not in _HALVED or points * step < 2 * SMALLEST_PIECE:
                raise
        middle = first + (points // 2 - 1) * step
        early = self.query_range(expression, first, middle, step)
        return early + self.query_range(expression, middle + step, last, step)

    def _ask(self, expression: str, first: float, points: int, step: float) -> list[Series]:
        last = first + (points - 1) * step
        fields = [
            ("query", expression),
            ("start", f"{first:.0f}"),
            ("end", f"{last:.0f}"),
            ("step", f"{step:.0f}"),
            ("timeout", f"{QUERY_SECONDS:.0f}s"),
        ]
        document = self._send(fields)
        self.warnings += [text[:_LONGEST_MESSAGE] for text in document.warnings if text not in self.warnings]
        return [_column(series, first, points, step) for series in document.data.result] if document.data else []

    def _send(self, fields: Sequence[tuple[str, str]]) -> _Document:
        try:
            return self._send_once(fields)
        except PrometheusError as error:
            if error.trouble not in _REPEATED:
                raise
        self._pause(_PAUSE)
        return self._send_once(fields)

    def _send_once(self, fields: Sequence[tuple[str, str]]) -> _Document:
        status, headers, body = self._post(fields)
        content_type = headers.get("Content-Type") or ""
        with suppress(TypeError, ValueError, IndexError):
            self.clock_ahead = parsedate_to_datetime(headers.get("Date") or "").timestamp() - time.time()
        try:
            document = msgspec.json.decode(body, type=_Document)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise explain_answer(self.url, status, content_type, "") from None
        if status != HTTPStatus.OK or document.status != "success":
            raise explain_answer(self.url, status, content_type, document.error[:_LONGEST_MESSAGE])
        return document

    def _post(self, fields: Sequence[tuple[str, str]]) -> tuple[int, Message, bytes | bytearray]:
        """POST a form. Returns the answer, of any status: that, its headers and its body. Raises PrometheusError."""
        request = urllib.request.Request(  # noqa: S310 - make_endpoint accepts http and https only
            f"{self.url}/api/v1/query_range",
            data=urllib.parse.urlencode(fields).encode(),
            headers={"User-Agent": f"uwsgi-headroom/{__version__}", "Accept": "application/json"},
        )
        for name, value in self._endpoint.headers:
            request.add_unredirected_header(name, value)
        end = time.monotonic() + self._seconds
        try:
            with self._opener.open(request, timeout=self._seconds) as response:
                return response.status, response.headers, self._read(response, end)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read(_LARGEST_ERROR)
        except PrometheusError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise explain_failure(self.url, error, self._seconds) from None

    def _read(self, response: Any, end: float) -> bytearray:
        """Read a body. Its size and the time for all of it are limited, not only the time between two parts."""
        body = bytearray()
        while part := response.read1(_PART):
            body += part
            if time.monotonic() > end:
                raise TimeoutError
            if len(body) > LARGEST_ANSWER:
                limit = f"{LARGEST_ANSWER // 1024 // 1024} MB"
                raise PrometheusError("too_much", f"{self.url}: an answer is larger than {limit}")
        if response.length:
            raise http.client.IncompleteRead(b"")  # `read1` does not
        return body


def _column(series: _Series, first: float, points: int, step: float) -> Series:
    values: dict[float, float] = {}
    for at, text in series.values:
        place = round((at - first) / step)
        with suppress(ValueError):
            if 0 <= place < points and isfinite(value := float(text)):
                values[first + step * place] = value
    return Series(series.metric, values)
