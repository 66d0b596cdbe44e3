"""Checks of the project as a whole, run by hand and by continuous integration; nothing here is installed."""
