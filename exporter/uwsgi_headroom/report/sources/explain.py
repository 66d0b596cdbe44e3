"""Says in a sentence why a Prometheus gave no values, and what to do."""

from __future__ import annotations

import http.client
import socket
import ssl
from http import HTTPStatus
from typing import Literal
from urllib.parse import urlsplit

from uwsgi_headroom.errors import HeadroomError

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
