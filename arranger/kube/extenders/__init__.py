"""Scheduler extenders over HTTP."""
