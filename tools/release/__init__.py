"""Builds what a release consists of, from the last commit. Publishes nothing."""
