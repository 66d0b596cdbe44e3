"""Runs servers under load to find their best settings: by experiment, on loopback, never on a server in use."""
