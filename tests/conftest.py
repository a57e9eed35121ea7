"""Fixtures of all tiers."""

pytest_plugins = ["tests.controlplane.fixtures"]
