"""Simulates days of healthy uWSGI servers, and lists what the exporter and the alert rules say about them."""
