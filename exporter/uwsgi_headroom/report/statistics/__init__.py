"""The statistics of a capacity review: pure functions of numpy arrays, which know no source and no document.

nan is "not known" and is allowed in every array of values. Results are frozen.
"""
