"""What changed, and when: the events of one server, found by comparing what was read with what was read before."""
