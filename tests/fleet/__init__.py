"""Tests of the fleet's tools, of its keep list and of the examples in docs/fleet.md."""
