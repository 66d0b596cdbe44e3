"""Grafana dashboards of uwsgi-headroom, made from Python: what is shown (`signals`) apart from how (`panels`).

`python3 -m dashboards` writes `dashboards/out/*.json`, which is what Grafana loads.
"""
