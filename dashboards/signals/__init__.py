"""The content of the dashboards: names, expressions, units and descriptions, one module per question."""
