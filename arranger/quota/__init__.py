"""Queues: who may use how much of what, and who gives way to whom (seed 004)."""
