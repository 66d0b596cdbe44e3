"""Recording and alert rules for Prometheus, made from one place: `python -m alerts` writes `alerts/rules/*.yaml`."""
