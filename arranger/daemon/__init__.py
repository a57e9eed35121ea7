"""The scheduler as a process: configuration, wiring, leader election, health and metrics."""
