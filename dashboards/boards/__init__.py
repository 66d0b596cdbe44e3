"""The dashboards: the position and the drawing of each signal."""
