"""Loads on a server: what they are, the clients that make them, and other load tools."""
