"""What the dashboards say: names, expressions, units and descriptions, one module a question."""
