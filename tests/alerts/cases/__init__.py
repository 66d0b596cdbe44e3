"""Cases of alerts whose input is many workers' counters; `python -m tests.alerts.cases` writes them for promtool."""
