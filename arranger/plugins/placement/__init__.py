"""Placement policies for jobs."""
