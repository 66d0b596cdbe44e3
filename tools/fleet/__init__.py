"""Measures the shipped rules, dashboards and report on fleets of stand-in hosts, with other stores than Prometheus."""
