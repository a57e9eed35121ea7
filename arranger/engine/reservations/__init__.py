"""Reservations: nodes that are kept for some, or for nobody, during windows of time."""
