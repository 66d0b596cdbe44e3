"""A path parameter for any text, because names of servers may contain slashes and newlines."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor


class _TextConvertor(Convertor[str]):
    """Starlette's `path` convertor, newlines included."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def register_text_convertor() -> None:
    """Register the convertor, for routes such as `/{name:anything}`."""
    register_url_convertor("anything", _TextConvertor())
