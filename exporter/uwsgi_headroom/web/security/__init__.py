"""TLS and login of the HTTP server, from a file in the format of the Prometheus exporter toolkit.

Imported only if `--web.config.file` or `--discover` needs it.
"""
