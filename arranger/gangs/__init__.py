"""Gangs: which pods belong together, how many of them must run, and how far they are."""
