"""Scheduler extenders' part in placing and preempting."""
