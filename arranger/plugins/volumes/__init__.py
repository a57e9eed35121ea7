"""Plugins that go by a pod's volumes."""
