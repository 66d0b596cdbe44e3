"""The exporter as a service: messages to systemd, sockets from systemd, and reload on SIGHUP."""
