"""Versioned objects, and how they are selected."""
