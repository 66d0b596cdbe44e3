"""Judges a deploy: what a request costs after a reload, beside what it cost before, with stated odds."""
