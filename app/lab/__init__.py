"""Runs the published experiments again on this machine, and says where their shape agrees and where not."""
