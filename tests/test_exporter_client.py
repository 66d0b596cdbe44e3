"""URLs of an exporter name its base address, and perhaps a server."""

import asyncio
import http.server
import threading

import pytest

from tests.support.bad_servers import answers_http
from uwsgi_headroom.check.exporter_client import ApiError, find_who_answers, get_document, list_names, parse_page
from uwsgi_headroom.source import Http, parse_address


@pytest.mark.parametrize(
    ("url", "base", "server"),
    [
        ("http://web1:9238", "/", None),
        ("http://web1:9238/", "/", None),
        ("http://web1:9238/metrics", "/", None),
        ("http://web1:9238/api/v2/servers", "/", None),
        ("http://web1:9238/servers/shop", "/", "shop"),
        ("http://web1:9238/servers/shop?window=300#x", "/", "shop"),
        ("http://web1:9238/servers/", "/", None),
        ("http://web1:9238/api/v2/servers/shop", "/", "shop"),
        ("http://web1:9238/servers/%2Frun%2Fa%20b.stats", "/", "/run/a b.stats"),
        ("http://web1:9238/servers/uwsgi/shop", "/", "uwsgi/shop"),
        ("http://web1:9238/headroom", "/headroom", None),
        ("http://web1:9238/headroom/", "/headroom", None),
        ("http://web1:9238/headroom/servers/shop", "/headroom", "shop"),
        ("http://web1:9238/servers/servers/shop", "/", "servers/shop"),
        ("http://web1:9238/api/headroom/servers/shop", "/api/headroom", "shop"),
        ("http://web1:9238/metrics/servers/shop", "/metrics", "shop"),
        ("http://web1:9238/servers/shop/", "/", "shop"),
        ("http://web1:9238/api/v2/servers/shop/history?seconds=60", "/", "shop"),
        ("http://web1:9238/servers/shop/history", "/", "shop/history"),
        ("http://web1:9238/runbooks/UwsgiDown?server=shop", "/", None),
        ("http://web1:9238/headroom/-/healthy", "/headroom", None),
    ],
)
def test_where_the_exporter_is_and_which_server_is_meant(url, base, server):
    """A URL may be that of a page or a document; an exporter behind a proxy may have a path prefix."""
    address = parse_address(url)
    assert isinstance(address, Http)
    page = parse_page(address)
    assert (page.base, page.server) == (Http("web1", 9238, base), server)


def test_an_exporter_of_an_earlier_version():
    """It is one, and an answer that it does not give says that it has to be upgraded."""

    class Earlier(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/api/v1/openapi.json" else 404)
            self.end_headers()
            self.wfile.write(b'{"openapi": "3.1.0"}')

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Earlier) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = Http(*server.server_address)
        assert asyncio.run(find_who_answers(url)) == "exporter"
        with pytest.raises(ApiError, match="one of an earlier version, to be upgraded"):
            asyncio.run(list_names(url))
        server.shutdown()


def test_an_answer_that_is_nested_deeply_is_no_exporters():
    """It is refused as any other document that is not of this API."""
    with answers_http("tcp", b'{"x":' + b"[" * 100_000) as address:
        url = parse_address(f"http://{address}")
        assert isinstance(url, Http)
        assert asyncio.run(find_who_answers(url)) == "other"
        with pytest.raises(ApiError, match="does not match this version of the API"):
            asyncio.run(get_document(url, "/api/v2/servers", dict))
