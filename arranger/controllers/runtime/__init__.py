"""What all controllers stand on."""
