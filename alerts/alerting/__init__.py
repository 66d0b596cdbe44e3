"""The alerts, one module a subject. Pages are few and about symptoms; tickets explain them."""
