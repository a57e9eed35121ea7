"""Schedules manifests in an embedded cluster: in virtual time, or live for the demo."""
