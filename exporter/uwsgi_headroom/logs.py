"""Log lines as logfmt or JSON, on standard error. `extra={"fields": {...}}` adds pairs to a line."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Literal

Format = Literal["logfmt", "json"]


def configure(level: str, style: Format) -> None:
    """Send every logger's lines of `level` and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(style))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _Formatter(logging.Formatter):
    def __init__(self, style: Format) -> None:
        super().__init__()
        self._form = style

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        pairs: dict[str, object] = {
            "ts": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            pairs["trace"] = self.formatException(record.exc_info)
        if self._form == "json":
            return json.dumps(pairs, default=str)
        return " ".join(f"{key}={_quoted(str(value))}" for key, value in pairs.items())


def _quoted(value: str) -> str:
    plain = value and value.isprintable() and not any(character in ' "=' for character in value)
    return value if plain else json.dumps(value, ensure_ascii=False)
