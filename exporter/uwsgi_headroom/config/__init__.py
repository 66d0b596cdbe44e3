"""The settings of the exporter: flags first, then environment variables, then the configuration file, then defaults."""
