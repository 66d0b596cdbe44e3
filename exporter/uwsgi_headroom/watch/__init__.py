"""Reads servers on a timer, and records their events: each has a reader and a watch; a fleet holds all watches."""
