"""Cases of alerts whose input is the counters of many workers."""
