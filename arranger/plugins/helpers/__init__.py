"""What plugins of several folders share."""
