"""What the daemon says of itself: logs, metrics, traces."""
