"""The dashboards: which signal stands where, and how it is drawn."""
