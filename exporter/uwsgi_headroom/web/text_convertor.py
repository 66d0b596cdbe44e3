"""Path parameters that hold any text: names of servers may have slashes and newlines in them."""

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
    """Let routes use `{name:anything}`."""
    register_url_convertor("anything", _TextConvertor())
