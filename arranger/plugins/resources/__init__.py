"""Plugins that go by the nodes' free resources."""
