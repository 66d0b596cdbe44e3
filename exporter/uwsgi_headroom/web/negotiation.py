"""What a client says that it takes."""

from __future__ import annotations

from collections.abc import Iterator


def accepts_openmetrics(header: str) -> bool:
    """Whether a client names the one version there is here. (The library's `choose_encoder` raises on some headers.)"""
    return any(
        name == "application/openmetrics-text"
        and parameters.get("version", "1.0.0") == "1.0.0"
        and not _is_refused(parameters)
        for name, parameters in _parse_header(header)
    )


def accepts_gzip(header: str) -> bool:
    """From its Accept-Encoding."""
    codings = dict(_parse_header(header))
    parameters = codings.get("gzip", codings.get("*"))
    return parameters is not None and not _is_refused(parameters)


def _parse_header(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """What stands in an Accept header or one of its kind: names with their parameters."""
    for entry in header.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        yield name, {key.strip(): value.strip() for key, _, value in (it.partition("=") for it in parameters)}


def _is_refused(parameters: dict[str, str]) -> bool:
    return parameters.get("q", "1").rstrip("0.") == ""
