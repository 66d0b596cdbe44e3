"""The application that `tune` measures: its ini file, what of it is kept, the paths that are requested."""
