"""Judges a deploy: what a request costs after a reload, beside what it cost before, with stated odds.

`spread` estimates a quantity per request and its spread from batches, and says from which distance on a difference
counts however often it is looked at, `judgement` does both for each quantity, and `sentence` writes it down.
"""
