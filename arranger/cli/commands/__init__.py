"""One module for each command of ``arranger``."""
