"""Plugins that decide when and in which order pods are tried, and by which quota."""
