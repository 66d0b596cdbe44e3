"""The HTTP server: metrics, page, API and runbooks."""
