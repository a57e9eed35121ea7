"""Queues: what each may use, and whose pods are evicted for whose (docs/design/queues.md)."""
