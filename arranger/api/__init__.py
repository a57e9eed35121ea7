"""Typed Kubernetes objects, quantities, selectors, effects and the keys of every annotation."""
