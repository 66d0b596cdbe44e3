"""Asks a Prometheus for ranges of values over HTTP: bounded pieces, one after the other, each repeated once if that may
help.

From the bottom up: how to reach a Prometheus (URL, login, tenant, certificate; nothing shows a secret); why a request
gave no values, as a sentence with what to do; a request, limited in time and size; the API.
"""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec
import numpy as np
from msgspec import Struct

from uwsgi_headroom import __version__
from uwsgi_headroom.config.http_client_file import load_authorities
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.report.columns import Column, Query
from uwsgi_headroom.source import HttpAccess, basic, bearer

_PAGES = re.compile(r"/(?:graph|query|api/v1(?:/.*)?|api)?/?$")
"""Ends of the URLs of Prometheus' own pages, which people copy from their browser."""

_HEADER = re.compile(r"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(?P<value>[\x20-\x7e\t]*)")
_LONGEST_SECRET = 64 * 1024


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A Prometheus. url: without login, to be shown; headers: more to send with each request, secrets included."""

    url: str
    access: HttpAccess = field(default_factory=HttpAccess, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def host(self) -> str:
        """The host's name or address."""
        return urlsplit(self.url).hostname or ""


def make_endpoint(
    url: str,
    *,
    user: str | None = None,
    password_file: str | None = None,
    token_file: str | None = None,
    headers: Sequence[str] = (),
    ca_file: str | None = None,
) -> Endpoint:
    """Check and combine the options of a Prometheus. Raises ConfigError, whose message contains no secret."""
    shown, from_url = _split_url(url)
    logins = [login for login in (from_url, _login(user, password_file), _bearer(token_file)) if login]
    if len(logins) > 1:
        raise ConfigError("give one login for Prometheus: in its URL, or a user and password file, or a token file")
    sent = dict(_parse_header(header) for header in headers)
    if logins and any(name.lower() == "authorization" for name in sent):
        raise ConfigError("give one login for Prometheus: a header Authorization, or another way")
    context = None if ca_file is None else _trust(Path(ca_file))
    return Endpoint(shown, HttpAccess(logins[0] if logins else "", context), sent)


def _trust(authorities: Path) -> ssl.SSLContext:
    """The certificates of the system, and those of a file."""
    if not authorities.is_file():
        raise ConfigError(f"--ca-file: {authorities} is not a file")
    context = ssl.create_default_context()
    load_authorities(context, authorities, "--ca-file")
    return context


def _split_url(url: str) -> tuple[str, str | None]:
    """The URL without login and without the page, and the login as a header's value."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError("--prometheus: the URL cannot be understood; an example is http://127.0.0.1:9090") from None
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f]", host):
        raise ConfigError("--prometheus: expected a URL such as http://127.0.0.1:9090 or https://prometheus.example")
    netloc = f"[{host}]" if _is_ipv6(host) else host
    netloc += f":{port}" if port else ""
    shown = urlunsplit((parts.scheme, netloc, _PAGES.sub("", parts.path), "", ""))
    if parts.username is None:
        return shown, None
    return shown, basic(unquote(parts.username), unquote(parts.password or ""))


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).version == 6
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _login(user: str | None, password_file: str | None) -> str | None:
    if user is None and password_file is None:
        return None
    if user is None or password_file is None:
        raise ConfigError("--prometheus-user and --prometheus-password-file belong together")
    return basic(user, _read_secret("--prometheus-password-file", password_file))


def _bearer(token_file: str | None) -> str | None:
    return None if token_file is None else bearer(_read_secret("--prometheus-token-file", token_file))


def _read_secret(option: str, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            text = file.read(_LONGEST_SECRET).decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a text file"
        raise ConfigError(f"{option}: cannot read {path}: {reason}") from None
    secret = text.strip()
    if not secret or not secret.isprintable():
        raise ConfigError(f"{option}: {path} must contain one line of text")
    return secret


def _parse_header(text: str) -> tuple[str, str]:
    match = _HEADER.fullmatch(text)
    if not match:
        raise ConfigError('--prometheus-header: expected "NAME: VALUE", such as "X-Scope-OrgID: shop"')
    return match["name"], match["value"].strip()


Trouble = Literal["unreachable", "timeout", "certificate", "login", "not_prometheus", "too_much", "refused", "busy"]
"""Why a request failed. unreachable: no answer, or a part of it. timeout, too_much: a shorter range may work. refused:
the request is wrong. busy: a later attempt may work."""

_LOGINS = "give --prometheus-user and --prometheus-password-file, or --prometheus-token-file"


class PrometheusError(HeadroomError):
    """A Prometheus did not give values."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.trouble: Trouble = trouble


def explain_failure(url: str, error: Exception, seconds: float) -> PrometheusError:
    """The error of a request that was not answered within `seconds`, or not completely."""
    reason = getattr(error, "reason", error)
    trouble: Trouble = "unreachable"
    match reason:
        case ssl.SSLCertVerificationError():
            trouble = "certificate"
            why = reason.verify_message or "it cannot be verified"
            what = f"its certificate is not accepted: {why}; if it is your own, give its authority with --ca-file"
        case ssl.SSLError():
            trouble, what = "certificate", "no TLS connection: does it speak https?"
        case TimeoutError():
            what = f"no answer within {seconds:.0f} s"
        case socket.gaierror():
            what = "the host's name is not known"
        case ConnectionRefusedError():
            what = "nothing listens there"
        case ConnectionError() | http.client.IncompleteRead():
            what = "the connection was closed before the answer was complete"
        case http.client.HTTPException():
            trouble, what = "not_prometheus", "the answer is not HTTP; does it need https?"
        case OSError(strerror=str() as text):
            what = text
        case _:
            what = "it cannot be reached"
    return PrometheusError(trouble, f"{url}: {what}")


def explain_answer(url: str, status: int, content_type: str, said: str) -> PrometheusError:
    """The error of an answer without values. said: the reason that Prometheus gives, or an empty text."""
    trouble = _judge_answer(status, said)
    because = f": {said}" if said else ""
    match trouble:
        case "login" if status == HTTPStatus.UNAUTHORIZED:
            what = f"needs a login, or another one (HTTP {status}): {_LOGINS}"
        case "login":
            what = f"refuses access (HTTP {status}): {_LOGINS}"
        case "too_much":
            what = f"the query is too much for it (HTTP {status}){because}"
        case "timeout":
            what = f"the query took too long (HTTP {status}){because}"
        case "busy":
            what = f"cannot answer (HTTP {status}){because}"
        case "refused":
            what = f"refuses the query (HTTP {status}){because}"
        case _ if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            what = f"redirects to another page (HTTP {status}): give the URL at which Prometheus itself answers"
        case _:
            kind = "a web page" if "html" in content_type else "something else"
            what = (
                f"answers with {kind} (HTTP {status}), not as the API of a Prometheus: give its URL without a page, "
                f"such as {urlsplit(url).scheme}://{urlsplit(url).netloc}, or with the path at which a proxy serves it"
            )
    return PrometheusError(trouble, f"{url}: {what}")


def _judge_answer(status: int, said: str) -> Trouble:
    logins = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED)
    slow = (HTTPStatus.GATEWAY_TIMEOUT, HTTPStatus.REQUEST_TIMEOUT)
    tests: tuple[tuple[Trouble, bool], ...] = (
        ("login", status in logins),
        ("too_much", any(words in said for words in ("maximum resolution", "too many samples"))),
        ("too_much", status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        ("timeout", status in slow or any(words in said for words in ("timed out", "timeout"))),
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


class Answer(Struct, frozen=True):
    """The answer to a request. date: the time in its header, or None."""

    status: int
    body: bytes
    content_type: str
    date: str | None


class HttpPost:
    """Sends forms to the paths of one Prometheus, one at a time. Follows no redirect: it would lead to a login page, or
    send the login to another host."""

    def __init__(self, endpoint: Endpoint, seconds: float = QUERY_SECONDS + _SPARE_SECONDS) -> None:
        self.endpoint, self._seconds = endpoint, seconds
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
        if is_loopback(endpoint.host):
            handlers.append(urllib.request.ProxyHandler({}))  # a proxy of the environment is for other hosts
        if endpoint.url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=endpoint.access.context))
        self._opener = urllib.request.build_opener(*handlers)

    def send(self, path: str, fields: Sequence[tuple[str, str]]) -> Answer:
        """POST a form to a path below the endpoint's URL, and return the answer of any status. Raises
        PrometheusError."""
        request = urllib.request.Request(  # noqa: S310 - make_endpoint accepts http and https only
            self.endpoint.url + path,
            data=urllib.parse.urlencode(fields).encode(),
            headers={"User-Agent": f"uwsgi-headroom/{__version__}", "Accept": "application/json"},
        )
        login = self.endpoint.access.authorization
        for name, value in (*self.endpoint.headers.items(), *([("Authorization", login)] if login else [])):
            request.add_unredirected_header(name, value)
        end = time.monotonic() + self._seconds
        try:
            with self._opener.open(request, timeout=self._seconds) as response:
                return self._read(response, response.status, end, LARGEST_ANSWER)
        except urllib.error.HTTPError as error:
            with error:
                return self._read(error, error.code, end, _LARGEST_ERROR)
        except PrometheusError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise explain_failure(self.endpoint.url, error, self._seconds) from None

    def _read(self, response: Any, status: int, end: float, most: int) -> Answer:
        """Read a body. Its size and the time for all of it are limited, not only the time between two parts."""
        parts: list[bytes] = []
        size = 0
        while part := response.read1(_PART):
            parts.append(part)
            size += len(part)
            if time.monotonic() > end:
                raise TimeoutError
            if size > most:
                if status >= http.HTTPStatus.BAD_REQUEST:
                    break
                limit = f"{most // 1024 // 1024} MB"
                raise PrometheusError("too_much", f"{self.endpoint.url}: an answer is larger than {limit}")
        if status < http.HTTPStatus.BAD_REQUEST and response.length:
            raise http.client.IncompleteRead(b"")  # `read1` does not
        headers = response.headers
        return Answer(status, b"".join(parts), headers.get("Content-Type") or "", headers.get("Date"))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


MOST_POINTS = 10_000
"""Prometheus refuses more than 11,000 points of a series in one answer."""

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
    """One series of an answer: a value for each time that was asked for, nan where there is none."""

    labels: Labels
    values: Column


@dataclass
class QueryLog:
    """The queries so far, by the text that the appendix shows, with the number of answers and their seconds."""

    counts: dict[str, tuple[int, float]] = field(default_factory=dict)

    def add(self, text: str, seconds: float) -> None:
        answers, before = self.counts.get(text, (0, 0.0))
        self.counts[text] = (answers + 1, before + seconds)

    def queries(self) -> tuple[Query, ...]:
        """The log as part of a review's data."""
        return tuple(Query(text=text, answers=answers, seconds=sum_) for text, (answers, sum_) in self.counts.items())


class PrometheusApi:
    """The API of one Prometheus. log: of all queries; warnings: sentences that Prometheus added to its answers;
    clock_ahead: seconds by which its clock is ahead of this machine's, at the last answer."""

    def __init__(self, post: HttpPost, pause: Callable[[float], None] = time.sleep) -> None:
        self._post, self._pause = post, pause
        self.log = QueryLog()
        self.warnings: list[str] = []
        self.clock_ahead = 0.0

    @property
    def url(self) -> str:
        return self._post.endpoint.url

    def now(self) -> float:
        """The time by the clock of Prometheus, in epoch seconds, as far as it is known."""
        return time.time() + self.clock_ahead

    def read_clock(self) -> float:
        """Ask for the time by the clock of Prometheus (epoch seconds), which also shows whether it answers at all."""
        now = time.time() // 60 * 60
        self._ask("vector(1)", "", now, 1, 60.0)
        return self.now()

    def query_range(self, expression: str, shown: str, first: float, last: float, step: float) -> list[Series]:
        """The values of an expression at first, first + step, ... last (epoch seconds). shown: the query's name in the
        log. A range that is too much at once is asked for in halves. Raises PrometheusError."""
        points = round((last - first) / step) + 1
        if points <= MOST_POINTS:
            try:
                return self._ask(expression, shown, first, points, step)
            except PrometheusError as error:
                if error.trouble not in _HALVED or points * step < 2 * SMALLEST_PIECE:
                    raise
        middle = first + (points // 2 - 1) * step
        early = self.query_range(expression, shown, first, middle, step)
        return _join(early, self.query_range(expression, shown, middle + step, last, step), points)

    def _ask(self, expression: str, shown: str, first: float, points: int, step: float) -> list[Series]:
        last = first + (points - 1) * step
        fields = [
            ("query", expression),
            ("start", f"{first:.0f}"),
            ("end", f"{last:.0f}"),
            ("step", f"{step:.0f}"),
            ("timeout", f"{QUERY_SECONDS:.0f}s"),
        ]
        began = time.monotonic()
        document = self._send("/api/v1/query_range", fields)
        if shown:
            self.log.add(shown, time.monotonic() - began)
        self.warnings += [text[:_LONGEST_MESSAGE] for text in document.warnings if text not in self.warnings]
        return [_column(series, first, points, step) for series in document.data.result] if document.data else []

    def _send(self, path: str, fields: Sequence[tuple[str, str]]) -> _Document:
        try:
            return self._send_once(path, fields)
        except PrometheusError as error:
            if error.trouble not in _REPEATED:
                raise
        self._pause(_PAUSE)
        return self._send_once(path, fields)

    def _send_once(self, path: str, fields: Sequence[tuple[str, str]]) -> _Document:
        answer = self._post.send(path, fields)
        with suppress(TypeError, ValueError, IndexError):
            self.clock_ahead = parsedate_to_datetime(answer.date or "").timestamp() - time.time()
        try:
            document = msgspec.json.decode(answer.body, type=_Document)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise explain_answer(self.url, answer.status, answer.content_type, "") from None
        if answer.status != HTTPStatus.OK or document.status != "success":
            said = document.error[:_LONGEST_MESSAGE]
            raise explain_answer(self.url, answer.status, answer.content_type, said)
        return document


def _column(series: _Series, first: float, points: int, step: float) -> Series:
    values = np.full(points, np.nan)
    for at, text in series.values:
        place = round((at - first) / step)
        with suppress(ValueError):
            if 0 <= place < points:
                values[place] = float(text)
    values[np.isinf(values)] = np.nan
    return Series(series.metric, values)


def _join(early: Sequence[Series], late: Sequence[Series], points: int) -> list[Series]:
    """The series of two consecutive ranges as series of the whole range of so many points."""
    joined: dict[frozenset[tuple[str, str]], Series] = {}
    for series, place in _placed(early, late, points):
        key = frozenset(series.labels.items())
        whole = joined.setdefault(key, Series(series.labels, np.full(points, np.nan)))
        whole.values[place] = series.values
    return list(joined.values())


def _placed(early: Sequence[Series], late: Sequence[Series], points: int) -> Iterator[tuple[Series, slice]]:
    yield from ((series, slice(0, len(series.values))) for series in early)
    yield from ((series, slice(points - len(series.values), points)) for series in late)
