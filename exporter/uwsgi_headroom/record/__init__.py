"""What is known of a server at one instant, in plain types: the form between those who collect and those who judge.

Collectors fill it (`kernel` its parts, `reading` the whole), and so does a review from the columns of a history.
`analysis` takes nothing else, besides windows. This package imports no other, reads nothing and judges nothing. What is
unknown is None, with the reason beside it.
"""
