"""One exporter that watches many servers: what it costs, and what it gives up."""
