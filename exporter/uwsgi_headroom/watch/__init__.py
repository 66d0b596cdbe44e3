"""Reads servers on a timer: each server has a reader and a watch; a fleet holds all watches."""
