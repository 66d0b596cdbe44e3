"""Recording and alert rules for Prometheus, generated from Python: `python3 -m alerts` writes `alerts/rules/*.yaml`."""
