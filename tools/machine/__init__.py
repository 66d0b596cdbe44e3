"""Boots a Debian with its own kernel in an emulator, and tries the product in it."""
