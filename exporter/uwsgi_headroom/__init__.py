"""How much more load a uWSGI server can take, which limit comes first, and what to change."""

__version__ = "2.0.0"
