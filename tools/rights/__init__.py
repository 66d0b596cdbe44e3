"""Measures which figures of the exporter need which right, on a real uWSGI: `python -m tools.rights` for its users, and
`python -m tools.rights.namespaces` for its namespaces."""
