"""Recording and alert rules for Prometheus, made from one place: `python3 -m alerts` writes `alerts/rules/*.yaml`."""
