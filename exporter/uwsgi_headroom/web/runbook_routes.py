"""The runbooks at `/runbooks/`: alerts link to the exporter that their figures come from.

In the repository they are in `alerts/runbooks`, beside the rules; the package has a symbolic link to that folder, which
setuptools follows, so that wheels and source distributions hold the files themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

_HEADERS = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}


def read_runbooks() -> Mapping[str, str]:
    """Every runbook by its alert's name."""
    files = resources.files("uwsgi_headroom").joinpath("runbooks").iterdir()
    return {file.name[:-3]: file.read_text("utf-8") for file in files if file.name.endswith(".md")}


async def _index(_request: Request) -> Response:
    names = sorted(read_runbooks())
    return PlainTextResponse("".join(f"/runbooks/{name}.md\n" for name in names), headers=_HEADERS)


async def _runbook(request: Request) -> Response:
    text = read_runbooks().get(
        request.path_params["name"]
    )  # looked up among names, so that no path leads anywhere else
    if text is None:
        return PlainTextResponse("No such runbook; /runbooks/ lists them.\n", status_code=404, headers=_HEADERS)
    return PlainTextResponse(text, headers=_HEADERS)


ROUTES = (Route("/runbooks/", _index), Route("/runbooks/{name}.md", _runbook))
