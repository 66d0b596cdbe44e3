"""Sends requests to a Prometheus over HTTP, with limits on time and size, and says in a sentence what went wrong."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from uwsgi_headroom import __version__
from uwsgi_headroom.report.sources.explain import PrometheusError, explain_failure
from uwsgi_headroom.report.sources.login import Endpoint, is_loopback

QUERY_SECONDS = 60.0
"""The time that Prometheus has for a query."""

_SPARE_SECONDS = 15.0
"""For the way there and back, and for a proxy that waits for Prometheus."""

LARGEST_ANSWER = 64 * 1024 * 1024
_LARGEST_ERROR = 64 * 1024
_PART = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
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
