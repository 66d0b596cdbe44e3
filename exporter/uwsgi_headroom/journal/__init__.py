"""Records the events of one server: each change between consecutive readings, with its time."""
