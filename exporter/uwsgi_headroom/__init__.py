"""How much more load a uWSGI server can take, what will give out first, and what to change."""

__version__ = "0.1.0"
