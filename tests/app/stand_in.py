"""Replaces the exporter in tests of `make demo`: takes the same arguments and serves a fixed document."""

import http.server
import json
import sys

DOCUMENT = {
    "state": "up",
    "status": "warning",
    "verdict": "Worker 1 takes 75 % of the requests.",
    "flow": {"observed": 3.0},
    "threads": {"available": 32},
    "workers": [{"share": 0.75}, {"share": 0.25}, {"share": None}],
    "headroom": {"factor": 2.5, "first": "hottest_interpreter"},
}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        is_asked = self.path == "/api/v2/servers/demo"
        metric = b'uwsgi_threads_available{server="demo"} 32.0\n'
        self.wfile.write(json.dumps(DOCUMENT).encode() if is_asked else metric)


if __name__ == "__main__":
    stats, server, *_, listen, address, slo, _, history, _ = sys.argv[1:]
    flags = ("--stats", "demo=unix:///", "--web.listen-address", "--slo", "--history")
    if (stats, server[:13], listen, slo, history) != flags:
        sys.exit(f"unexpected arguments: {sys.argv}")
    host, port = address.split(":")
    http.server.HTTPServer((host, int(port)), Handler).serve_forever()
