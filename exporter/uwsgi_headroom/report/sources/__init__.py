"""Where the data of a capacity review comes from: a Prometheus, or a history file of the exporter."""
