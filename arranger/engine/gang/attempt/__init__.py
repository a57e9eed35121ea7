"""What attempts to place gang groups rest on between two steps."""
