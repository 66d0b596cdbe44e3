<<<<<<< HEAD
"""Cases of alerts whose input is many workers' counters."""
=======
"""Cases of alerts whose input is many workers' counters; `python3 -m tests.alerts.cases` writes them for promtool."""
>>>>>>> bare
