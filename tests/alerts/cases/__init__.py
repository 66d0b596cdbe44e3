"""Cases of alerts whose input is many workers' counters."""
