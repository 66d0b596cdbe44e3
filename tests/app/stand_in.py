"""Stands in for the exporter where `make demo` is tested: takes the same arguments, has something to show."""

import http.server
import sys

METRICS = """\
uwsgi_threads_available{server="demo"} 32.0
uwsgi_concurrency{method="littles_law",server="demo",window="1m"} 2.9
uwsgi_concurrency{method="observed",server="demo",window="1m"} 3.0
uwsgi_headroom_ratio{limit="threads",server="demo",window="1m"} 10.7
uwsgi_headroom_ratio{limit="hottest_interpreter",server="demo",window="1m"} 2.5
uwsgi_worker_request_share{server="demo",window="5m",worker_id="1"} 0.75
uwsgi_worker_request_share{server="demo",window="5m",worker_id="2"} 0.25
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
