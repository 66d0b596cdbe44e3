"""Serves the static files of the page. They are read and compressed once, and browsers keep them until they change."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from uwsgi_headroom.web.negotiation import compressible_response

FOLDER = Path(__file__).with_name("static")
PATH = "/static/{version}/{name:path}"

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PERMANENTLY = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file, plain and compressed."""

    plain: bytes
    compressed: bytes
    media_type: str


@cache
def load_assets() -> dict[str, Asset]:
    """Read every served file, by its path below the folder."""
    paths = [path for path in sorted(FOLDER.rglob("*")) if path.suffix in _TYPES]
    return {path.relative_to(FOLDER).as_posix(): _asset(path) for path in paths}


def _asset(path: Path) -> Asset:
    plain = path.read_bytes()
    return Asset(plain, gzip.compress(plain, 9, mtime=0), _TYPES[path.suffix])


@cache
def version() -> str:
    """Return a version that changes with any file. It is part of the path, so that relative imports have it."""
    digest = hashlib.sha256()
    for name, asset in load_assets().items():
        digest.update(b"%b\0%d\0%b" % (name.encode(), len(asset.plain), asset.plain))
    return digest.hexdigest()[:16]


def url(name: str) -> str:
    """Return the path of a file on the exporter."""
    return f"/static/{version()}/{name}"


def script_names() -> list[str]:
    """Return the page's scripts. The HTML lists all of them, so that a browser need not follow the imports."""
    return [name for name in load_assets() if name.endswith(".js") and "/" not in name]


async def serve_asset(request: Request) -> Response:
    """Serve a file. A path with another version, from a page of another exporter, gets the current file."""
    asset = load_assets().get(request.path_params["name"])
    if asset is None:
        return PlainTextResponse("no such file\n", 404)
    same = request.path_params["version"] == version()
    headers = {
        "Cache-Control": _PERMANENTLY if same else "no-cache",
        "ETag": f'"{version()}"',
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if f'"{version()}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return compressible_response(request, asset.plain, headers, asset.media_type, compressed=asset.compressed)
