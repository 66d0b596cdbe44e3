"""The arguments of the command line: its commands, their options, and what is said where one is wrong."""
