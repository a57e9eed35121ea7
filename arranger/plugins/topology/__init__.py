"""Plugins that look at the other pods of a topology domain."""
