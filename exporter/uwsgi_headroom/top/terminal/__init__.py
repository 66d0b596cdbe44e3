"""The terminal itself: its keys, its screen, its escape sequences."""
