"""How the exporter's cost grows with workers, threads, servers, samples and scrapers."""
