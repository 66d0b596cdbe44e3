"""Draws signals: kinds of panels, colours, and colours of thresholds."""
