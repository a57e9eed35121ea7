"""Time for victims to save their state before they are deleted."""
