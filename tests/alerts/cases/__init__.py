"""Cases of alerts whose input is many workers' counters: `python -m tests.alerts.cases` writes them to `alerts/tests/`."""
