"""The exporter's settings: from flags, else environment variables, else the configuration file, else defaults."""
