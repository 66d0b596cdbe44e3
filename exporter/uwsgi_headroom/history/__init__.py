"""What was read, kept in memory: totals that only grow, and an hour of them."""
