"""The alerts, one module per subject. Pages are few and about symptoms; tickets are about causes."""
