"""Runs plugins through the extension points."""
