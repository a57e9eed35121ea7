"""Plugins that go by the other pods of a topology domain."""
