"""Plugins that go by what a node says of itself."""
