"""The command line's arguments: commands, their options, and the messages for wrong ones."""
