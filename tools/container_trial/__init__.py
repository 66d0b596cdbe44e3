"""Builds the container image on a stand-in base and compares an exporter in a container with the truth."""
