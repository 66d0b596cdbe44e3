"""The arguments of the command line: commands, their options, messages for wrong ones, and completion by shells."""
