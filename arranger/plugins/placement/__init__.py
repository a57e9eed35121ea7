"""Placement policies that jobs ask for by an annotation (docs/guide/placement.md)."""
