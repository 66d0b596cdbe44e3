"""Tests the lowest and the newest version of each dependency, and writes the table of docs/how-to-add.md."""
