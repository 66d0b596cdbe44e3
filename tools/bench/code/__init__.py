"""Compares the lines of code in which threads are seen with the application's own record of its time."""
