"""The terminal: keys, screen and escape sequences."""
