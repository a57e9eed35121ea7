"""Writes to the API server, each with a definite outcome."""
