"""Plugins that judge nodes by their free resources."""
