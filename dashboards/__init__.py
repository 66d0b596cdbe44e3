"""Grafana dashboards of uwsgi-headroom, generated from Python: `signals` define what is shown, `panels` define how.

`python3 -m dashboards` writes `dashboards/out/*.json` for Grafana.
"""
