"""The applications of the lab, and the programs that serve them. They import nothing of the project's dependencies."""
