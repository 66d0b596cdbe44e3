"""Measures which figures of the exporter need which right, on a real uWSGI."""
