"""The exporter as a service: it serves until a signal, reports to systemd, and reloads its configuration on SIGHUP."""
