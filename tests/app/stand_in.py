"""Stands in for the exporter where `make demo` is tested: takes the same arguments, has something to show."""

import http.server
import sys

METRICS = """\
uwsgi_worker_requests_total{server="demo",worker_id="1"} 30.0
uwsgi_worker_requests_total{server="demo",worker_id="2"} 10.0
uwsgi_threads_busy{server="demo"} 3.0
uwsgi_threads_available{server="demo"} 32.0
"""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(METRICS.encode() if self.path == "/metrics" else b"ready\n")


if __name__ == "__main__":
    server, listen, address = sys.argv[2:]
    if (sys.argv[1], server[:13], listen) != ("--stats", "demo=unix:///", "--web.listen-address"):
        sys.exit(f"unexpected arguments: {sys.argv}")
    host, port = address.split(":")
    http.server.HTTPServer((host, int(port)), Handler).serve_forever()
