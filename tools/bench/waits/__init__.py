"""Compares what the exporter says that threads wait for with the application's own record of it."""
