"""How signals are drawn: kinds of panels, colours, and the verdicts that thresholds give."""
